#include "hooks/rested_gradients.h"

#include <torch/optim.h>

#include <algorithm>
#include <span>
#include <utility>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/spoilt_gradients.h"
#include "hooks/value_reader.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMostLeaves = 1 << 12;
constexpr std::size_t kLast = 6;              // of the leaves, one of which is read at each step
constexpr std::int64_t kMostElements = 8192;  // of it: a microsecond

thread_local std::vector<TensorId> reached;
thread_local std::int64_t averaged_in = 0;  // the step of the last average
}  // namespace

void RestedGradients::see_backward() noexcept { reached.clear(); }

void RestedGradients::arrived(TensorId leaf) noexcept {
  if (reached.size() == reached.capacity()) {
    if (reached.size() >= kMostLeaves) return;
    try {
      reached.reserve(std::max<std::size_t>(64, 2 * reached.size()));
    } catch (...) {
      return;
    }
  }
  reached.push_back(leaf);
}

void RestedGradients::averaging(Capture& capture, const CollectiveEvent& average) {
  if (!capture.options().values || !reads_values() || inside_backward()) return;
  // A buffer may hold any of them: they are looked at before the first sum of a step.
  const bool is_first = std::exchange(averaged_in, average.at.step) != average.at.step;
  tell_spoilt_before(capture, average, is_first ? std::span(reached) : std::span<TensorId>());
}

// Undefined where it has none, or is no member: a batch that requires grad is of no step.
at::Tensor RestedGradients::gradient_of(Capture& capture, TensorId leaf,
                                        const ParamGroups& groups) {
  const at::Tensor alive = capture.tensors().tensor(leaf);
  if (!alive.defined() || !has_gradient(alive)) return {};
  const bool is_member = std::ranges::any_of(groups, [&](const auto& group) {
    return std::ranges::any_of(group.params(),
                               [&](const at::Tensor& member) { return member.is_same(alive); });
  });
  return is_member ? alive.grad() : at::Tensor();
}

void RestedGradients::step_begins(Capture& capture, const ParamGroups& groups) {
  if (Capture::watch() != Watch::kNothing) take(capture, groups);
  if (last_ == 0 || reads_values()) return;
  const at::Tensor gradient = gradient_of(capture, last_, groups);
  if (gradient.defined() && gradient.numel() <= kMostElements && !range_of(gradient).is_finite()) {
    tell(capture, groups);
  }
}

void RestedGradients::take(Capture& capture, const ParamGroups& groups) {
  if (reached.empty()) return;
  leaves_.swap(reached);
  reached.clear();
  last_ = 0;
  std::int64_t smallest = kMostElements + 1;
  for (std::size_t i = leaves_.size() - std::min(kLast, leaves_.size()); i < leaves_.size(); ++i) {
    const at::Tensor gradient = gradient_of(capture, leaves_[i], groups);
    if (!gradient.defined() || !readable_data(gradient).has_value()) continue;
    if (gradient.numel() >= smallest) continue;
    smallest = gradient.numel();
    last_ = leaves_[i];
  }
}

void RestedGradients::tell(Capture& capture, const ParamGroups& groups) const {
  SpoiltStepEvent event{.at = capture.marker().now()};
  for (const TensorId leaf : leaves_) {
    const at::Tensor gradient = gradient_of(capture, leaf, groups);
    const ValueRange values = gradient.defined() ? range_of(gradient) : ValueRange();
    if (!values.is_finite()) {
      event.gradients.push_back({.at = event.at, .tensor = leaf, .values = values});
    } else if (event.gradients.empty() && values.elements > 0) {
      event.last_finite = leaf;
    }
  }
  if (event.gradients.empty()) return;
  capture.put_large(std::move(event));
  capture.arm();
}

}  // namespace ddpscope
