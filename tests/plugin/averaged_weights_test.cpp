// Ranks that average their weights, or leave out steps, in ways that differ between them.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::averaged_weights_test {
namespace {
void average_weights(const Group& group, Net& net, const std::string& but = "none") {
  const torch::NoGradGuard no_grad;
  for (const auto& entry : net->named_parameters()) {
    if (entry.key().starts_with(but)) continue;
    const at::Tensor& parameter = entry.value();
    const at::Tensor sum = parameter.detach().clone();
    all_reduce(group, sum);
    parameter.copy_(sum / group->getSize());
  }
}

using AfterStep = std::function<void(int step, Net& net)>;

/// What `of` makes for each rank runs after each of its steps; so many has each rank.
Merged merged_run(const std::vector<int>& steps, const std::function<AfterStep(const Place&)>& of) {
  Ranks ranks(static_cast<int>(steps.size()), [=](const Place& place) {
    const AfterStep after = of(place);
    torch::manual_seed(3);
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.05);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 5);
    for (int step = 1; step <= steps[static_cast<std::size_t>(place.rank)]; ++step) {
      optimizer.zero_grad();
      net(torch::randn({4, 8})).square().mean().backward();
      optimizer.step();
      after(step, net);
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>(steps.size(), 0));
  return merge();
}
}  // namespace

TEST_CASE("Weights that ranks average after other numbers of steps are no fault") {
  const Merged merged = merged_run({36, 72}, [](const Place& place) -> AfterStep {
    const Group group = place.group();
    const int period = place.rank == 0 ? 3 : 6;
    return [=](int step, Net& net) {
      if (step % period == 0) average_weights(group, net);
    };
  });
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings"));
  CHECK(merged.says("none, where the ranks average their weights after other numbers of steps"));
}

TEST_CASE("Weights that a program updates and averages by itself in one buffer are no fault") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(3);
    Net net;
    attach_diagnostics(net, quiet());
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 5);
    for (int step = 1; step <= 80; ++step) {
      net->zero_grad();
      net(torch::randn({4, 8})).square().mean().backward();
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& parameter : net->parameters()) {
        parameter.sub_(parameter.grad(), 0.05);
      }
      if (step % 4 != 0) continue;
      const at::Tensor flat = torch::nn::utils::parameters_to_vector(net->parameters());
      all_reduce(group, flat);
      torch::nn::utils::vector_to_parameters(flat / place.ranks, net->parameters());
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings"));
}

TEST_CASE("Weights that are averaged in pairs that change are no fault") {
  const Merged merged = merged_run({40, 40, 40, 40}, [](const Place& place) -> AfterStep {
    const auto pair_of = [&place](int lower, const char* name) {
      const auto store =
          c10::make_intrusive<c10d::PrefixStore>(name + std::to_string(lower), place.store);
      return Place{.rank = place.rank == lower ? 0 : 1, .ranks = 2, .store = store}.group();
    };
    const int rank = place.rank;
    const Group even = pair_of(rank / 2 * 2, "even");
    const Group odd = pair_of(rank == 1 || rank == 2 ? 1 : 0, "odd");
    return [=](int step, Net& net) { average_weights(step % 2 == 0 ? even : odd, net); };
  });
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings"));
}

TEST_CASE("A layer that an average of weights leaves out is told, and the layer alone") {
  const bool is_left_out = GENERATE(false, true);
  const Merged merged = merged_run({40, 40}, [is_left_out](const Place& place) -> AfterStep {
    const Group group = place.group();
    return [=](int step, Net& net) {
      if (step % 8 == 0) average_weights(group, net, is_left_out ? "second" : "none");
    };
  });
  INFO(merged.said);
  CHECK(merged.says(is_left_out ? "0 errors, 1 warning" : "0 errors, 0 warnings"));
  CHECK(merged.says("ranks 0-1 step 9 second: warning: 2 of 4 parameters still differ") ==
        is_left_out);
}

TEST_CASE("A step that one rank leaves out is told as that") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(3);
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.05);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 5);
    for (int batch = 1; batch <= 40; ++batch) {
      optimizer.zero_grad();
      net(torch::randn({4, 8})).square().mean().backward();
      for (const at::Tensor& parameter : net->parameters()) {
        all_reduce(group, parameter.grad());
        parameter.grad().div_(2);
      }
      if (batch != 21 - place.rank) optimizer.step();
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("the backwards before that step() were 2 on rank 1, 1 on rank 0"));
  CHECK(!merged.says("memory or a link that fails"));
}

}  // namespace ddpscope::test::averaged_weights_test
