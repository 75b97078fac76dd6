// Averages that are made without a sum over ranks: of what was gathered from all of them.
#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::gathered_averages_test {
namespace {
constexpr int kSteps = 4;

at::Tensor gathered(const Group& group, const Place& place, const at::Tensor& one) {
  std::vector<at::Tensor> sent = {one};
  std::vector<std::vector<at::Tensor>> all(1);
  for (int rank = 0; rank < place.ranks; ++rank) all[0].push_back(torch::empty_like(one));
  group->allgather(all, sent)->wait();
  return torch::stack(all[0]);
}

/// With one parameter that is not averaged, the last.
std::function<int(const Place&)> program(bool leaves_one_out) {
  return [leaves_one_out](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);  // data of its own
    std::vector<at::Tensor> averaged = net->parameters();
    if (leaves_one_out) averaged.pop_back();
    for (int step = 1; step <= kSteps; ++step) {
      optimizer.zero_grad();
      net(torch::randn({4, 8})).square().mean().backward();
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& parameter : averaged) {
        parameter.mutable_grad().copy_(gathered(group, place, parameter.grad()).mean(0));
      }
      optimizer.step();
    }
    return 0;
  };
}

Merged merged_of_two(bool leaves_one_out) {
  CHECK(Ranks(2, program(leaves_one_out)).exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("A gradient that ranks which gather and average leave out is an error") {
  const Merged merged = merged_of_two(/*leaves_one_out=*/true);
  INFO(merged.said);
  CHECK(merged.says("error: 1 of 4 sampled gradients differs between ranks at step() (subset)"));
  CHECK(merged.code == 1);
}

TEST_CASE("Ranks that gather and average all gradients are silent") {
  const Merged merged = merged_of_two(/*leaves_one_out=*/false);
  INFO(merged.said);
  CHECK(merged.code == 0);
  CHECK(merged.says("0 errors, 0 warnings, 0 notes"));
}

}  // namespace ddpscope::test::gathered_averages_test
