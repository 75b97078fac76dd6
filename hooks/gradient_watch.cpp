#include "hooks/gradient_watch.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/device_gradients.h"
#include "hooks/gradient_table.h"
#include "hooks/interposed.h"
#include "hooks/near_tls.h"
#include "hooks/node_values.h"
#include "hooks/pending_gradients.h"
#include "hooks/reduced_gradients.h"
#include "hooks/rested_gradients.h"
#include "hooks/spoilt_gradients.h"
#include "hooks/update_order.h"
#include "hooks/value_reader.h"

namespace ddpscope {
namespace {
using torch::autograd::AccumulateGrad;
using torch::autograd::variable_list;

struct Apply;
using InterposedApply = Interposed<Apply, variable_list(AccumulateGrad*, variable_list&&)>;

DDPSCOPE_NEAR thread_local unsigned long long leaves_hash = 0;

unsigned long long scatter(TensorId id) {
  id = (id ^ (id >> 30)) * 0xbf58476d1ce4e5b9;
  return id ^ (id >> 27);
}

bool is_hooked(const AccumulateGrad& node) {
  const auto& leaf = node.variable;
  return !node.post_hooks().empty() || !torch::autograd::impl::hooks(leaf).empty() ||
         torch::autograd::impl::post_acc_grad_hooks(leaf) != nullptr;
}

// Also through a tensor that shares its memory, but not its version.
bool was_written(const WriteLog& writes, const TensorSlot& slot, const at::Tensor& leaf) {
  const std::uint64_t since = slot.next_write.load(std::memory_order_relaxed);
  if (since == 0) return false;
  const c10::TensorImpl& impl = *leaf.unsafeGetTensorImpl();
  return version_of(impl) != slot.version.load(std::memory_order_relaxed) ||
         values_of(impl) != slot.values.load(std::memory_order_relaxed) ||
         (writes.any_hidden() && writes.was_hidden_written(impl, since));
}

// What `p.grad().data().zero_()` wrote is no gradient that was kept.
GradientBefore before_of(const Capture& capture, const TensorSlot& slot, const at::Tensor& leaf) {
  const GradientBefore before = gradient_before(slot, leaf, capture.options().values);
  const WriteLog& writes = capture.writes();
  const std::uint64_t since = slot.next_write.load(std::memory_order_relaxed);
  if (before != GradientBefore::kKept || since == 0 || !writes.any_hidden()) return before;
  const c10::TensorImpl& gradient = *leaf.grad().unsafeGetTensorImpl();
  return writes.was_hidden_written(gradient, since) ? GradientBefore::kReset : before;
}

bool outlived_update(const Capture& capture, const TensorSlot& slot, const at::Tensor& leaf,
                     GradientBefore before) {
  const bool is_there = before == GradientBefore::kKept || before == GradientBefore::kReset;
  const WriteLog& writes = capture.writes();
  if (!is_there || !was_written(writes, slot, leaf)) return false;
  return before == GradientBefore::kKept ||
         UpdateOrder::gradient_outlived_update(writes, slot, leaf);
}

struct Accumulated {
  TensorSlot* slot = nullptr;
  GradientBefore before = GradientBefore::kUndefined;
};

// `incoming` is null where a function returned nothing.
Accumulated before_accumulation(Capture& capture, const AccumulateGrad& node,
                                const at::Tensor* incoming) {
  const at::Tensor& leaf = node.variable;
  const at::Tensor* gradient = leaf.grad().defined() ? &leaf.grad() : incoming;
  TensorSlot& slot = capture.announced_slot(leaf);
  const TensorId id = slot.id.load(std::memory_order_relaxed);
  leaves_hash += scatter(id);
  const GradientBefore before = before_of(capture, slot, leaf);
  capture.put(GradientEvent{.at = capture.marker().now(),
                            .tensor = id,
                            .before = before,
                            .defined = incoming != nullptr,
                            .hooked = is_hooked(node),
                            .depth = backward_depth(),
                            .outlived_update = outlived_update(capture, slot, leaf, before),
                            .storage = memory_of(leaf).storage,
                            .gradient_storage = gradient ? memory_of(*gradient).storage : 0});
  if (incoming != nullptr) PendingGradients::adding(capture, leaf.grad());
  return {.slot = &slot, .before = before};
}

// What the whole pass saw, told already; nothing where the gradient cannot be read.
ValueRange measure(Capture& capture, TensorId id, const at::Tensor& gradient) {
  const auto data = readable_data(gradient);
  if (!data.has_value()) return {};
  const TensorValues values = measure_values(*data);
  const ValueRange range{.elements = data->elements,
                         .nan_count = values.nan_count,
                         .inf_count = values.inf_count,
                         .absmax = values.absmax};
  capture.put_large(GradientValuesEvent{.at = capture.marker().now(),
                                        .tensor = id,
                                        .values = range,
                                        .sum_of_squares = values.sum_of_squares,
                                        .zero_count = values.zero_count,
                                        .dtype = dtype_name(gradient.scalar_type())});
  return range;
}

// Also what the program's own hook made of what the nodes returned.
void see_values(Capture& capture, TensorSlot& slot, const at::Tensor& gradient) {
  const TensorId id = slot.id.load(std::memory_order_relaxed);
  const ValueRange values = measure(capture, id, gradient);
  if (values.is_finite()) return;
  const NodeValues* nodes = NodeValues::here();
  note_spoilt(slot);
  capture.put_large(NonfiniteGradientEvent{.at = capture.marker().now(),
                                           .tensor = id,
                                           .values = values,
                                           .by_hook = nodes != nullptr && nodes->are_finite()});
}

// Once per parameter and step: without a scope, which would cost more than the work. It calls
// nothing of LibTorch that is hooked.
void remember_after(TensorSlot* slot, const at::Tensor& leaf) noexcept {
  const Capture* const capture = Capture::active();
  if (slot == nullptr || capture == nullptr) return;
  remember_gradient(*slot, leaf, capture->writes().next());
  slot->is_added_to.store(true, std::memory_order_relaxed);
  const c10::TensorImpl& impl = *leaf.unsafeGetTensorImpl();
  slot->version.store(version_of(impl), std::memory_order_relaxed);
  slot->values.store(values_of(impl), std::memory_order_relaxed);
  UpdateOrder::gradient_arrived(*slot, capture->marker().backwards());
  const CaptureOptions& options = capture->options();
  if (options.values || options.calls != nullptr) gradient_table().put(*slot, leaf);
  if (options.values) RestedGradients::arrived(slot->id.load(std::memory_order_relaxed));
}

variable_list on_apply(AccumulateGrad* self, variable_list&& gradients) {
  const bool defined = !gradients.empty() && gradients[0].defined();
  Accumulated here;
  if (self->variable.defined()) {
    const at::Tensor* const incoming = defined ? &gradients[0] : nullptr;
    as_observer(
        "gradient", [&](Capture& capture) { here = before_accumulation(capture, *self, incoming); },
        Timed::kSampled);
  }
  TensorSlot* const slot = here.slot;
  if (slot != nullptr && defined && reads_values()) {
    as_reader([&](Capture& capture) {
      see_values(capture, *slot, gradients[0]);
      device_gradients().arrived(capture, *slot, *self);
    });
  }
  const bool is_reduced = slot != nullptr && defined && ReducedGradients::are_wanted();
  const bool meets_hook =
      is_reduced && torch::autograd::impl::post_acc_grad_hooks(self->variable) != nullptr;
  if (is_reduced) ReducedGradients::will_arrive(*slot, self->variable, here.before);
  if (meets_hook) ReducedGradients::arrives_at_hook(*slot, self->variable, gradients[0]);
  variable_list result = InterposedApply::original(self, std::move(gradients));
  remember_after(slot, self->variable);
  if (is_reduced && !meets_hook) ReducedGradients::arrived(*slot, self->variable);
  return result;
}
}  // namespace

bool install_gradient_watch() noexcept {
  return InterposedApply::install_for_watched(
      "_ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EE", on_apply);
}

unsigned long long take_leaves_hash() noexcept { return std::exchange(leaves_hash, 0); }

}  // namespace ddpscope
