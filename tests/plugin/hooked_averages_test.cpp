// Ranks that average each gradient in a hook, as soon as it is accumulated and beside the backward.
#include <memory>
#include <utility>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::hooked_averages_test {
namespace {
constexpr int kSteps = 24;
using Work = c10::intrusive_ptr<c10d::Work>;

struct Accumulated : torch::autograd::PostAccumulateGradHook {
  explicit Accumulated(std::function<void(const at::Tensor&)> what) : what(std::move(what)) {}
  void operator()(const torch::autograd::Variable& leaf) override { what(leaf); }
  std::function<void(const at::Tensor&)> what;
};

enum class Divides { kFirst, kAfterWait, kNever };

Work issue(const Group& group, const at::Tensor& gradient) {
  std::vector<at::Tensor> tensors{gradient};
  return group->allreduce(tensors);
}

/// Makes the gradients parts of one buffer, which this returns.
at::Tensor share_gradients(const std::vector<at::Tensor>& parameters) {
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : parameters) elements += parameter.numel();
  const at::Tensor buffer = torch::zeros({elements});
  std::int64_t begin = 0;
  for (const at::Tensor& parameter : parameters) {
    parameter.mutable_grad() = buffer.narrow(0, begin, parameter.numel()).view_as(parameter);
    begin += parameter.numel();
  }
  return buffer;
}

/// `with_views`: gradients are parts of one buffer, which is cleared as a whole.
Merged train_hooked(Divides divides, bool with_views) {
  const auto program = [divides, with_views](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.02);
    const auto parameters = net->parameters();
    const at::Tensor buffer = with_views ? share_gradients(parameters) : at::Tensor();
    std::vector<Work> works;
    for (const at::Tensor& parameter : parameters) {
      const auto average = [&](const at::Tensor& leaf) {
        const torch::NoGradGuard no_grad;
        if (divides == Divides::kFirst) leaf.grad().div_(2);
        works.push_back(issue(group, leaf.grad()));
      };
      torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                     std::make_unique<Accumulated>(average));
    }
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    for (int step = 0; step < kSteps; ++step) {
      with_views ? void(buffer.zero_()) : optimizer.zero_grad();
      net(torch::randn({16, 8}) + place.rank).square().mean().backward();
      for (const Work& work : std::exchange(works, {})) work->wait();
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& parameter : parameters) {
        if (divides == Divides::kAfterWait) parameter.grad().div_(2);
      }
      optimizer.step();
    }
    return 0;
  };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("Averages that hooks start beside the backward are silent") {
  const Divides divides = GENERATE(Divides::kFirst, Divides::kAfterWait);
  const bool with_views = GENERATE(false, true);
  const Merged merged = train_hooked(divides, with_views);
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("Sums that hooks start beside the backward and nobody divides are found") {
  const Merged merged = train_hooked(Divides::kNever, /*with_views=*/false);
  INFO(merged.said);
  CHECK(merged.says("warning: reduced gradients are 2 × the mean over 2 ranks (sum_not_divided)"));
}

}  // namespace ddpscope::test::hooked_averages_test
