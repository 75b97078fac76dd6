#include "hooks/gradient_scaling.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "hooks/capture.h"
#include "hooks/gradient_table.h"
#include "hooks/op_inputs.h"
#include "hooks/optimizer_watch.h"
#include "hooks/pending_gradients.h"
#include "hooks/per_thread.h"
#include "hooks/reduced_gradients.h"

namespace ddpscope {
namespace {
struct Quotient {
  ClipQuotient of;
  double value = 0;  // in the precision of the program
};

struct Factor {
  std::optional<double> value;
  bool by_tensor = false;
};

// Of one thread: gradients that one factor was applied to, and the last division of numbers.
struct Scaling {
  std::int64_t gradients = 0;
  TensorId first = 0;
  Factor factor;
  std::optional<Quotient> quotient;
};

Scaling& mine() { return PerThread<Scaling>::get(); }

// The tensor of another type that a surveyed operator of this thread cast a gradient into last.
struct Cast {
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> copy;
  TensorId leaf = 0;
};

Cast& last_cast() { return PerThread<Cast>::get(); }

/// 0: it is none.
TensorId leaf_of_cast(const at::Tensor& tensor) {
  const Cast& cast = last_cast();
  const bool is_it = cast.copy.has_value() && !cast.copy->expired() &&
                     cast.copy->_unsafe_get_target() == tensor.unsafeGetTensorImpl();
  return is_it ? cast.leaf : 0;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool same(const Factor& a, const Factor& b) {
  if (a.by_tensor != b.by_tensor || a.value.has_value() != b.value.has_value()) return false;
  return !a.value.has_value() || same(*a.value, *b.value);
}

bool is_one_number(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->numel() == 1; }

std::optional<double> number_in(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const void* const values = impl.is_cpu() ? values_of(impl) : nullptr;
  if (values == nullptr) return std::nullopt;
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return *static_cast<const float*>(values);
    case at::kDouble:
      return *static_cast<const double*>(values);
    case at::kHalf:
      return *static_cast<const c10::Half*>(values);
    case at::kBFloat16:
      return *static_cast<const c10::BFloat16*>(values);
    default:
      return std::nullopt;
  }
}

/// As an operator returns it in that type.
double rounded(double value, at::ScalarType type) {
  const auto single = static_cast<float>(value);
  if (type == at::kHalf) return static_cast<c10::Half>(single);
  if (type == at::kBFloat16) return static_cast<c10::BFloat16>(single);
  return type == at::kDouble ? value : single;
}

bool is_watching() {
  const Capture* const capture = Capture::active();
  return capture != nullptr && capture->options().values && !inside_optimizer_step() &&
         Capture::watch() != Watch::kNothing;
}

/// The gradient of this leaf, if its values begin there; null if not.
const at::Tensor* gradient_at(const at::Tensor& leaf, const void* values) {
  if (!leaf.defined() || !leaf.is_leaf()) return nullptr;
  const at::Tensor& gradient = leaf.grad();
  const bool is_there = gradient.defined() && values_of(*gradient.unsafeGetTensorImpl()) == values;
  return is_there ? &gradient : nullptr;
}

bool is_gradient_of(const at::Tensor& leaf, const at::Tensor& written) {
  const at::Tensor* const gradient = gradient_at(leaf, values_of(*written.unsafeGetTensorImpl()));
  return gradient != nullptr && gradient->numel() == written.numel();
}

void note(Capture& capture, const TensorSlot& slot, const at::Tensor& written,
          const Factor& factor) {
  if (!is_gradient_of(capture.tensors().lock(slot), written)) return;
  if (PendingGradients::is_reduced_for_another(written)) return;
  Scaling& scaling = mine();
  const TensorId leaf = slot.id.load(std::memory_order_relaxed);
  if (scaling.gradients > 0 && (leaf == scaling.first || !same(factor, scaling.factor))) {
    const std::optional<Quotient> quotient = scaling.quotient;
    tell_scaling(capture);
    scaling.quotient = quotient;
  }
  if (scaling.gradients++ > 0) return;
  scaling.first = leaf;
  scaling.factor = factor;
}

TensorSlot* slot_of(const at::Tensor& written) {
  if (!written.defined()) return nullptr;
  return gradient_table().find(values_of(*written.unsafeGetTensorImpl()));
}

TensorId id_of(const TensorSlot& slot) { return slot.id.load(std::memory_order_relaxed); }

template <class GetFactor>
void see_gradient(const at::Tensor& written, GetFactor&& factor) {
  const TensorSlot* const slot = slot_of(written);
  if (slot == nullptr) return;
  as_observer("write", [&](Capture& capture) { note(capture, *slot, written, factor()); });
}

Factor factor_of(bool divides, std::optional<double> by, bool by_tensor) {
  if (divides && by.has_value()) by = 1 / *by;
  return {.value = by, .by_tensor = by_tensor};
}

Factor factor_of(bool divides, const at::Tensor& by) {
  return factor_of(divides, number_in(by), /*by_tensor=*/true);
}

Factor factor_of(bool divides, const at::Scalar& by) {
  const bool is_real = by.isFloatingPoint() || by.isIntegral(/*includeBool=*/false);
  if (!is_real || by.isSymbolic()) return {};
  return factor_of(divides, by.toDouble(), /*by_tensor=*/false);
}

// Each element has a factor of its own, as by a mask.
void see_factors(const at::Tensor& written) {
  const TensorSlot* const slot = slot_of(written);
  if (slot == nullptr) return;
  as_observer("write", [&](Capture&) { ReducedGradients::changed(*slot); });
}

// `limit / norm` fills a tensor with the limit and divides it by the norm, in place.
void see_quotient(const at::Tensor& written, const at::Tensor& by) {
  const std::optional<double> limit = number_in(written);
  const std::optional<double> norm = number_in(by);
  if (!limit.has_value() || !norm.has_value()) return;
  mine().quotient = {.of = {.limit = *limit, .norm = *norm},
                     .value = rounded(*limit / *norm, written.scalar_type())};
}

void tell_clip(Capture& capture, const WholeClip& clip) {
  tell_scaling(capture);
  GradientsScaledEvent event{.at = capture.marker().now(), .by_tensor = true};
  for (const void* const values : clip.values) {
    const TensorSlot* const slot = gradient_table().find(values);
    if (slot == nullptr) continue;
    const at::Tensor leaf = capture.tensors().lock(*slot);
    if (gradient_at(leaf, values) == nullptr) continue;
    PendingGradients::written_at(capture, values, "ddpscope::clip_grad_norm_");
    if (event.gradients++ == 0) event.first = slot->id.load(std::memory_order_relaxed);
  }
  if (event.gradients == 0) return;
  if (clip.unscaled_by != 1) {
    event.factor = clip.unscaled_by;
    capture.put_large(GradientsScaledEvent(event));
  }
  if (!clip.quotient.has_value()) return;
  event.factor = clip.factor;
  event.quotient = clip.quotient;
  capture.put_large(std::move(event));
}
}  // namespace

void see_scaling(bool divides, const at::Tensor& written, const at::Tensor& by) noexcept {
  if (!is_watching() || !written.defined() || !by.defined()) return;
  if (!is_one_number(by)) return see_factors(written);
  if (divides && is_one_number(written)) {
    as_guest(
        "write", [&](Capture&) { see_quotient(written, by); }, Timed::kSampled);
  }
  see_gradient(written, [&] { return factor_of(divides, by); });
}

void see_scaling(bool divides, const at::Tensor& written, const at::Scalar& by) noexcept {
  if (is_watching()) see_gradient(written, [&] { return factor_of(divides, by); });
}

void see_scaling(bool divides, at::TensorList written, const at::Tensor& by) noexcept {
  if (!is_watching() || !by.defined() || !is_one_number(by)) return;
  for (const at::Tensor& one : written) {
    see_gradient(one, [&] { return factor_of(divides, by); });
  }
}

void see_scaling(bool divides, at::TensorList written, const at::Scalar& by) noexcept {
  if (!is_watching()) return;
  for (const at::Tensor& one : written) {
    see_gradient(one, [&] { return factor_of(divides, by); });
  }
}

void see_scaled_copy(Capture& capture, const at::RecordFunction& function) {
  const auto inputs = function.inputs();
  const bool is_in_place = std::string_view(function.name()).ends_with('_');
  if (is_in_place || !is_watching() || inputs.empty() || !inputs[0].isTensor()) return;
  const at::Tensor& gradient = inputs[0].toTensor();
  const TensorId of_cast = leaf_of_cast(gradient);
  const TensorSlot* const slot = of_cast != 0 ? nullptr : slot_of(gradient);
  const double factor = of_cast == 0 && slot == nullptr ? 1 : ddpscope::factor_of(function);
  if (factor == 1) return;
  if (of_cast == 0 && !is_gradient_of(capture.tensors().lock(*slot), gradient)) return;
  tell_scaling(capture);  // what was scaled before it
  capture.put(ScaledCopyEvent{.at = capture.marker().now(),
                              .gradient_of = of_cast != 0 ? of_cast : id_of(*slot),
                              .factor = factor});
}

TensorId cast_gradient(Capture& capture, const at::RecordFunction& function) {
  const std::string_view name = function.name();
  if ((name != "aten::to" && name != "aten::_to_copy") || !is_watching()) return 0;
  const auto inputs = function.inputs();
  if (inputs.empty() || !inputs[0].isTensor()) return 0;
  const at::Tensor& gradient = inputs[0].toTensor();
  const TensorSlot* const slot = slot_of(gradient);
  const bool is_gradient =
      slot != nullptr && is_gradient_of(capture.tensors().lock(*slot), gradient);
  return is_gradient ? id_of(*slot) : 0;
}

void see_cast(const at::RecordFunction& function, TensorId leaf) {
  for_each_tensor(function.outputs(), [&](const at::Tensor& copy) {
    last_cast() = {.copy = c10::weak_intrusive_ptr<c10::TensorImpl>(copy.getIntrusivePtr()),
                   .leaf = leaf};
  });
}

void see_clip(const WholeClip& clip) noexcept {
  if (!is_watching()) return;
  as_observer("write", [&](Capture& capture) { tell_clip(capture, clip); });
}

void tell_scaling(Capture& capture) {
  if (!capture.options().values) return;
  Scaling& scaling = mine();
  const Scaling told = std::exchange(scaling, {});
  if (told.gradients == 0) return;
  GradientsScaledEvent event{.at = capture.marker().now(),
                             .factor = told.factor.value,
                             .by_tensor = told.factor.by_tensor,
                             .gradients = told.gradients,
                             .first = told.first};
  if (told.quotient.has_value() && told.factor.value.has_value()) {
    const bool clipped = same(*told.factor.value, std::min(1.0, told.quotient->value)) ||
                         same(*told.factor.value, told.quotient->value);
    if (clipped) event.quotient = told.quotient->of;
  }
  capture.put_large(std::move(event));
}

}  // namespace ddpscope
