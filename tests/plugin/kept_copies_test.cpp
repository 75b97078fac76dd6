// Ranks of which one keeps a copy of the model, as an average of its weights, for itself, and ranks
// that first train a model each for itself.
#include <functional>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::kept_copies_test {
namespace {
enum class Fault : std::uint8_t { kNone, kRate, kSum, kOneLayer };

void average(const Group& group, Net& net, const Place& place, Fault fault) {
  for (const at::Tensor& parameter : net->parameters()) {
    if (fault == Fault::kOneLayer && parameter.is_same(net->second->weight)) continue;
    all_reduce(group, parameter.grad());
    if (fault != Fault::kSum) parameter.grad().div_(place.ranks);
  }
}

void follow(const Net& net, Net& copy) {
  const torch::NoGradGuard no_grad;
  const auto from = net->parameters(), to = copy->parameters();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].mul_(0.9).add_(from[i], 0.1);
}

/// The first rank alone has the copy, before or after the first step.
Merged merged_run(Fault fault, bool is_kept_early = true) {
  Ranks ranks(2, [=](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(3);
    Net net, copy;
    attach_diagnostics(net, quiet());
    const auto keep = [&] { attach_diagnostics(copy, quiet()); };
    if (is_kept_early && place.rank == 0) keep();
    torch::optim::SGD optimizer(net->parameters(), 0.05);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 5);
    for (int step = 1; step <= 40; ++step) {
      optimizer.zero_grad();
      net(torch::randn({4, 8})).square().mean().backward();
      average(group, net, place, fault);
      if (fault == Fault::kRate && place.rank == 1 && step == 20) {
        optimizer.param_groups()[0].options().set_lr(0.01);
      }
      optimizer.step();
      if (!is_kept_early && step == 2 && place.rank == 0) keep();
      if (place.rank == 0) follow(net, copy);
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}

/// All ranks have a target that their loss needs; all of them let it follow, or the first alone.
Merged run_with_target(bool follows_on_all) {
  Ranks ranks(2, [=](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(3);
    Net net, target;
    for (const at::Tensor& parameter : target->parameters()) parameter.requires_grad_(false);
    attach_diagnostics(net, quiet());
    attach_diagnostics(target, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.05);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 5);
    for (int step = 1; step <= 20; ++step) {
      optimizer.zero_grad();
      const at::Tensor x = torch::randn({4, 8});
      torch::mse_loss(net(x), target(x)).backward();
      average(group, net, place, Fault::kNone);
      optimizer.step();
      if (follows_on_all || place.rank == 0) follow(net, target);
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("A target of the loss that one rank alone changes is told") {
  const Merged merged = run_with_target(/*follows_on_all=*/false);
  INFO(merged.said);
  CHECK(merged.says("0 errors, 1 warning"));
  CHECK(merged.says("4 of 4 parameters differ between ranks when step 2 began"));
  CHECK(merged.says("all ranks run them before their backwards, as the target of a loss"));
}

TEST_CASE("A target of the loss that all ranks change is silent") {
  const Merged merged = run_with_target(/*follows_on_all=*/true);
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings, 0 notes"));
}

TEST_CASE("A copy that one rank keeps for itself is silent") {
  const Merged merged = merged_run(Fault::kNone);
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings, 0 notes"));
}

TEST_CASE("Beside a copy of one rank, another learning rate is found") {
  const Merged merged = merged_run(Fault::kRate);
  INFO(merged.said);
  CHECK(merged.says("learning rate 0.01 on rank 1, 0.05 on rank 0, since step 20"));
  CHECK(merged.says("primary rank-optimizer-differs"));
}

TEST_CASE("Beside a copy of one rank, a sum that is not divided is found") {
  const Merged merged = merged_run(Fault::kSum);
  INFO(merged.said);
  CHECK(merged.says("2 × the mean over 2 ranks (sum_not_divided)"));
}

TEST_CASE("Beside a copy of one rank that was made later, a layer left out is found") {
  const Merged merged = merged_run(Fault::kOneLayer, /*is_kept_early=*/false);
  INFO(merged.said);
  CHECK(merged.says("1 of 4 sampled gradients differs between ranks at step() (subset)"));
  CHECK(merged.says("primary grad-not-reduced"));
}

namespace {
void train_averaged(torch::nn::Module& model, const Group& group, const Place& place,
                    const std::function<at::Tensor()>& loss) {
  torch::optim::SGD optimizer(model.parameters(), 0.01);
  for (int step = 0; step < 30; ++step) {
    optimizer.zero_grad();
    loss().backward();
    for (const at::Tensor& parameter : model.parameters()) {
      all_reduce(group, parameter.grad().div_(place.ranks));
    }
    optimizer.step();
  }
}

/// Each rank trains a model for itself, then all train another one, and at last average the first.
Merged merged_of_late_average(bool sends_first) {
  Ranks ranks(2, [sends_first](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    torch::nn::Linear late(8, 3);
    Net net;
    attach_diagnostics(late, quiet());
    attach_diagnostics(net, quiet());
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    const auto late_loss = [&] { return late(input()).square().mean(); };
    torch::optim::SGD own(late->parameters(), 0.01);
    train(own, late_loss, 5);
    train_averaged(*net, group, place, [&] { return net->loss(); });
    for (const at::Tensor& parameter : late->parameters()) {
      if (sends_first) broadcast(group, parameter.detach());
    }
    train_averaged(*late, group, place, late_loss);
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("A model that each rank trained first and all average later is compared again") {
  const Merged merged = merged_of_late_average(/*sends_first=*/false);
  INFO(merged.said);
  CHECK(merged.code == 1);
  CHECK(merged.says("[rank-parameters-differ]"));
}

TEST_CASE("A model that each rank trained first and one sends before the average is silent") {
  const Merged merged = merged_of_late_average(/*sends_first=*/true);
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

}  // namespace ddpscope::test::kept_copies_test
