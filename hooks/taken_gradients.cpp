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

bool is_gradient(const c10::TensorImpl& impl) {
  const void* const values = values_of(impl);
  const TensorSlot* const slot = gradient_table().find(values);
  return slot != nullptr && slot->gradient_values.load(std::memory_order_relaxed) == values;
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

std::uint64_t TakenGradients::read_by(const Capture& capture, const at::RecordFunction& function) {
  if (!capture.options().values) return 0;
  if (fate() == GradientFate::kUnknown) fate() = GradientFate::kLeft;
  if (measures(function.name())) return 0;
  std::uint64_t gradient = 0;
  for_each_tensor(function.inputs(), [&](const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (gradient == 0 && impl.numel() > 1 && is_gradient(impl)) gradient = storage_of(impl);
  });
  return gradient;
}

void TakenGradients::see_result(const at::RecordFunction& function, std::uint64_t gradient) {
  for_each_tensor(function.outputs(), [&](const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    const bool is_taken = impl.numel() > 1 && storage_of(impl) != gradient && !is_gradient(impl);
    if (is_taken) fate() = GradientFate::kTaken;
    // As the average over ranks is: what was taken came back.
    if (is_gradient(impl) && std::string_view(function.name()) == "aten::copy_") {
      fate() = GradientFate::kLeft;
    }
  });
}

GradientFate TakenGradients::take() noexcept {
  return std::exchange(fate(), GradientFate::kUnknown);
}

}  // namespace ddpscope
