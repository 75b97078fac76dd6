// Two ranks, one of which makes NaN of a gradient before they average.
#include <cmath>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::spoilt_averages_test {
namespace {
constexpr int kSteps = 8;
constexpr int kSpoiltStep = 4;
using Tensors = std::vector<at::Tensor>;

void average_each(const Group& group, const Tensors& gradients) {
  for (const at::Tensor& gradient : gradients) {
    all_reduce(group, gradient);
    gradient.div_(2);
  }
}

void average_at_once(const Group& group, const Tensors& gradients) {
  Tensors flat;
  for (const at::Tensor& gradient : gradients) flat.push_back(gradient.flatten());
  const at::Tensor all = torch::cat(flat);
  all_reduce(group, all);
  all.div_(2);
  std::int64_t begin = 0;
  for (const at::Tensor& gradient : gradients) {
    gradient.copy_(all.narrow(0, begin, gradient.numel()).view_as(gradient));
    begin += gradient.numel();
  }
}

template <class Average>
Merged train_spoilt(Average&& average) {
  const auto program = [average](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.02);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    for (int step = 1; step <= kSteps; ++step) {
      optimizer.zero_grad();
      net(torch::randn({16, 8}) + place.rank).square().mean().backward();
      const torch::NoGradGuard no_grad;
      Tensors gradients;
      for (const at::Tensor& parameter : net->parameters()) gradients.push_back(parameter.grad());
      if (step == kSpoiltStep && place.rank == 1) gradients[2].fill_(NAN);
      average(group, gradients);
      optimizer.step();
    }
    return 0;
  };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  return merge();
}

void check_origin(const Merged& merged) {
  INFO(merged.said);
  CHECK(
      merged.says("rank 1 step 4 second.weight (aten::fill_): error: the gradient was not finite "
                  "when it was averaged over the ranks, though backward left it finite: 64 of 64 "
                  "elements are NaN [numeric-nonfinite-gradient]"));
  CHECK(merged.says("of ranks 0-1 it was so on rank 1 alone"));
  CHECK(merged.says("led to: rank 0 step 4 "));
  CHECK(merged.says("not finite after the average over the ranks"));
  CHECK(merged.says("primary numeric-nonfinite-gradient in second"));
  CHECK_FALSE(merged.says("numeric-nonfinite-forward"));
}
}  // namespace

TEST_CASE("A gradient that one rank spoils before its own average names that rank") {
  check_origin(train_spoilt(average_each));
}

TEST_CASE("A gradient that one rank spoils before an average of all names that rank") {
  check_origin(train_spoilt(average_at_once));
}

}  // namespace ddpscope::test::spoilt_averages_test
