#include "hooks/loss_targets.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <string_view>
#include <utility>
#include <vector>

#include "hooks/capture.h"
#include "hooks/near_tls.h"

namespace ddpscope {
namespace {
/// Those of one step since the last backward.
struct MeanLosses {
  std::int64_t step = -1;
  std::int64_t losses = 0;
  std::int64_t targets = 0;
  MeanLoss first;
};
DDPSCOPE_NEAR constinit thread_local MeanLosses mean_losses;

// No view is one, and to ask some views for their node throws.
bool is_such_loss(const at::Tensor& root) {
  if (!root.defined() || torch::autograd::impl::get_view_autograd_meta(root) != nullptr) {
    return false;
  }
  const auto& node = root.grad_fn();
  return node != nullptr && std::string_view(node->name()).starts_with("NllLoss");
}
}  // namespace

void add_mean_loss(const Capture& capture, const MeanLoss& loss) noexcept {
  MeanLosses& known = mean_losses;
  const std::int64_t step = capture.marker().now().step;
  if (known.step != step) known = {.step = step};
  if (known.losses++ == 0) known.first = loss;
  known.targets += loss.targets;
}

void tell_loss_targets(Capture& capture, const std::vector<at::Tensor>& roots) {
  if (mean_losses.losses == 0) return;
  const MeanLosses known = std::exchange(mean_losses, {});
  const Stamp at = capture.marker().now();
  if (known.step != at.step) return;
  capture.put_large(LossTargetsEvent{.at = at,
                                     .op = known.first.op,
                                     .module = known.first.module,
                                     .classes = known.first.classes,
                                     .losses = known.losses,
                                     .targets = known.targets,
                                     .is_root = roots.size() == 1 && is_such_loss(roots.front())});
}

}  // namespace ddpscope
