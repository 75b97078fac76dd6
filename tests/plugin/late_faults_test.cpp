// Faults that begin late in a run, where hooks rest in most steps.
#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::late_faults_test {
namespace {
constexpr int kAverages = 140;  // steps; hooks rest from the 64th on

int train_on(const Place& place, int local_steps) {
  const Group group = place.group();
  torch::manual_seed(1);
  Net net;
  Options options = quiet();
  options.overhead = 0.01;  // of a step of so few operators: no other cycle is watched
  attach_diagnostics(net, options);
  torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 1; step <= kAverages + local_steps; ++step) {
    optimizer.zero_grad();
    net(torch::randn({4, 8})).square().mean().backward();
    for (const at::Tensor& parameter : net->parameters()) {
      if (step <= kAverages) all_reduce(group, parameter.grad().div_(place.ranks));
    }
    optimizer.step();
  }
  return 0;
}
}  // namespace

TEST_CASE("Averages that end while hooks rest are missed at once") {
  Ranks ranks(2, [](const Place& place) { return train_on(place, /*local_steps=*/20); });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("ranks 0-1 step 144 "));
  CHECK(merged.says("(none_seen) [grad-not-reduced]"));
}

}  // namespace ddpscope::test::late_faults_test
