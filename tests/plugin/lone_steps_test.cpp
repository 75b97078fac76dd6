// Ranks of which one trained alone, as to warm up, before it sent its parameters to the others.
#include <chrono>
#include <thread>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::lone_steps_test {
namespace {
struct How {
  bool drifts = false;
  bool looks_only = false;  ///< at gradients, without a step
};

void warm_up(Net& net, bool looks_only) {
  if (looks_only) {
    net->loss().backward();
    net->zero_grad();
    return;
  }
  torch::optim::SGD alone(net->parameters(), 0.1);
  for (int i = 0; i < 3; ++i) {
    alone.zero_grad();
    net->loss().backward();
    alone.step();
  }
}

void averaged_step(Net& net, torch::optim::Optimizer& optimizer, const Group& group,
                   const Place& place) {
  optimizer.zero_grad();
  net(torch::randn({4, 8})).square().mean().backward();
  for (const at::Tensor& parameter : net->parameters()) {
    all_reduce(group, parameter.grad().div_(place.ranks));
  }
  optimizer.step();
}

Merged merged_run(const How& how) {
  Ranks ranks(2, [how](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    Net net;
    attach_diagnostics(net, quiet());
    if (place.rank == 0) warm_up(net, how.looks_only);
    for (const at::Tensor& parameter : net->parameters()) broadcast(group, parameter.detach());
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    for (int step = 1; step <= 40; ++step) {
      averaged_step(net, optimizer, group, place);
      const torch::NoGradGuard no_grad;
      if (how.drifts && place.rank == 1 && step == 10) net->first->weight.mul_(1.01);
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("A rank that warmed up alone before the broadcast is silent") {
  const Merged merged = merged_run({});
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("A rank that looked at gradients alone before the broadcast is silent") {
  const Merged merged = merged_run({.looks_only = true});
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("A rank that looked for a rate alone before it told it is silent") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    attach_diagnostics(net, quiet());
    at::Tensor rate = torch::zeros({1});
    if (place.rank == 0) {
      const auto before = torch::nn::utils::parameters_to_vector(net->parameters()).detach();
      warm_up(net, /*looks_only=*/false);
      const torch::NoGradGuard no_grad;
      torch::nn::utils::vector_to_parameters(before, net->parameters());
      rate.fill_(0.02);
    }
    broadcast(group, rate);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    torch::optim::SGD optimizer(net->parameters(), rate.item<double>());
    for (int step = 0; step < 20; ++step) averaged_step(net, optimizer, group, place);
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

namespace {
/// Each rank takes steps of its own before the ranks average: with another model, or with the one
/// that is averaged then.
Merged merged_after_own_steps(bool with_same) {
  Ranks ranks(2, [with_same](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    attach_diagnostics(net, quiet());
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    Net trial;
    Net& own = with_same ? net : trial;
    for (int i = 0; i < 1 + place.rank; ++i) warm_up(own, /*looks_only=*/false);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    for (int step = 0; step < 20; ++step) averaged_step(net, optimizer, group, place);
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("Ranks that first train models of their own, each for so long, are silent") {
  const Merged merged = merged_after_own_steps(/*with_same=*/false);
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

namespace {
/// The first rank trains it before the ranks average.
void train_on_first(torch::nn::Linear& model, const Place& place) {
  torch::optim::Adam optimizer(model->parameters());
  for (int i = 0; place.rank == 0 && i < 20; ++i) {
    optimizer.zero_grad();
    model(input()).square().mean().backward();
    optimizer.step();
  }
}

void train_together(Net& net, const Group& group, const Place& place) {
  torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 0; step < 40; ++step) averaged_step(net, optimizer, group, place);
}
}  // namespace

TEST_CASE("A rank that first trains another model, which it keeps, is silent") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    torch::nn::Linear other(8, 3);
    torch::manual_seed(1);
    Net net;
    if (place.rank == 0) attach_diagnostics(other, quiet());
    attach_diagnostics(net, quiet());
    train_on_first(other, place);
    train_together(net, group, place);
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("A teacher that one rank trains and sends to the others is silent") {
  const bool by_buffer = GENERATE(false, true);
  Ranks ranks(2, [by_buffer](const Place& place) {
    const Group group = place.group();
    torch::nn::Linear teacher(8, 3);
    attach_diagnostics(teacher, quiet());
    torch::manual_seed(1);
    Net net;
    attach_diagnostics(net, quiet());
    train_on_first(teacher, place);
    {
      const torch::NoGradGuard no_grad;
      if (by_buffer) {
        const at::Tensor flat = torch::nn::utils::parameters_to_vector(teacher->parameters());
        broadcast(group, flat);
        torch::nn::utils::vector_to_parameters(flat, teacher->parameters());
      } else {
        for (const at::Tensor& parameter : teacher->parameters()) {
          broadcast(group, parameter.detach());
        }
      }
    }
    train_together(net, group, place);
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("Ranks of which a thread trains a model of its own beside are silent") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    torch::nn::Linear own(8, 3);
    attach_diagnostics(net, quiet());
    attach_diagnostics(own, quiet());
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    std::thread beside([&own, &place] {
      torch::optim::Adam optimizer(own->parameters());
      for (int step = 0; step < 40; ++step) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1 + place.rank));
        optimizer.zero_grad();
        own(torch::ones({4, 8})).square().mean().backward();
        optimizer.step();
      }
    });
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    for (int step = 0; step < 40; ++step) averaged_step(net, optimizer, group, place);
    beside.join();
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
  CHECK(merged.says("step optimizers of their own side by side"));
}

TEST_CASE("Ranks that first train their model without an average are found") {
  const Merged merged = merged_after_own_steps(/*with_same=*/true);
  INFO(merged.said);
  CHECK(merged.code == 1);
}

TEST_CASE("Weights that drift apart after a rank warmed up alone are found") {
  const Merged merged = merged_run({.drifts = true});
  INFO(merged.said);
  CHECK(merged.says("differ between ranks when step 11 began"));
}

namespace {
/// Between the steps of both ranks the first trains a temperature alone, or the model itself.
Merged merged_between(bool trains_model) {
  Ranks ranks(2, [trains_model](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    const at::Tensor temperature = torch::ones({1}).requires_grad_();
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);  // data of its own
    torch::optim::SGD own({trains_model ? net->first->weight : temperature}, 0.01);
    for (int step = 1; step <= 30; ++step) {
      averaged_step(net, optimizer, group, place);
      if (step != 10 || place.rank > 0) continue;
      train(
          own, [&] { return (net(input()) * temperature).square().mean(); }, 5);
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("A rank that calibrates alone between steps is silent, and the report says so") {
  const Merged merged = merged_between(/*trains_model=*/false);
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
  CHECK(merged.says("rank 0 makes steps alone from step 11 on"));
}

TEST_CASE("A rank that trains the model alone between steps is found") {
  const Merged merged = merged_between(/*trains_model=*/true);
  INFO(merged.said);
  CHECK(merged.code == 1);
  CHECK(merged.says("[rank-parameters-differ]"));
}

}  // namespace ddpscope::test::lone_steps_test
