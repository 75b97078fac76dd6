#include "hooks/taken_gradients.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "hooks/capture.h"
#include "hooks/gradient_table.h"
#include "hooks/op_inputs.h"

namespace ddpscope {
namespace {
GradientFate& fate() noexcept {
  static thread_local GradientFate seen = GradientFate::kUnknown;
  return seen;
}

/// It may lie where one was that is gone.
bool is_gradient(Capture& capture, const c10::TensorImpl& impl) {
  const void* const values = values_of(impl);
  const TensorSlot* const slot = gradient_table().find(values);
  if (slot == nullptr) return false;
  const at::Tensor leaf = capture.tensors().lock(*slot);
  if (!leaf.defined() || !leaf.is_leaf() || !leaf.grad().defined()) return false;
  return values_of(*leaf.grad().unsafeGetTensorImpl()) == values;
}

/// On the way to a norm or a largest value.
bool measures(std::string_view op) {
  using namespace std::string_view_literals;
  constexpr auto kNames =
      std::to_array({"aten::abs"sv, "aten::pow"sv, "aten::square"sv, "aten::isnan"sv,
                     "aten::isinf"sv, "aten::isfinite"sv, "aten::norm"sv});
  return std::ranges::find(kNames, op) != kNames.end();
}
}  // namespace

std::uint64_t TakenGradients::read_by(Capture& capture, const at::RecordFunction& function) {
  if (!capture.options().values) return 0;
  if (fate() == GradientFate::kUnknown) fate() = GradientFate::kLeft;
  if (measures(function.name())) return 0;
  std::uint64_t gradient = 0;
  for_each_tensor(function.inputs(), [&](const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (gradient == 0 && impl.numel() > 1 && is_gradient(capture, impl))
      gradient = storage_of(impl);
  });
  return gradient;
}

void TakenGradients::see_result(Capture& capture, const at::RecordFunction& function,
                                std::uint64_t gradient) {
  for_each_tensor(function.outputs(), [&](const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    const bool is_taken =
        impl.numel() > 1 && storage_of(impl) != gradient && !is_gradient(capture, impl);
    if (is_taken) fate() = GradientFate::kTaken;
    // As the average over ranks is: what was taken came back.
    if (is_gradient(capture, impl) && std::string_view(function.name()) == "aten::copy_") {
      fate() = GradientFate::kLeft;
    }
  });
}

GradientFate TakenGradients::take() noexcept {
  return std::exchange(fate(), GradientFate::kUnknown);
}

}  // namespace ddpscope
