// What other languages call: torch.ops.load_library("libddpscope.so"), then torch.ops.ddpscope.
#include <ddpscope/ops/clip_grad.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace ddpscope::clip {
namespace {

using NormTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor,
                               at::Tensor, at::Tensor, at::Tensor>;

NonFinite non_finite_of(std::string_view word) {
  static constexpr auto kWords = std::to_array<std::pair<std::string_view, NonFinite>>(
      {{"propagate", NonFinite::kPropagate},
       {"throw_later", NonFinite::kThrowLater},
       {"throw", NonFinite::kThrow},
       {"skip", NonFinite::kSkip},
       {"zero_tensor", NonFinite::kZeroTensor}});
  for (const auto& [name, value] : kWords) {
    if (name == word) return value;
  }
  TORCH_CHECK(false,
              "clip_grad_norm_: on_non_finite must be propagate, throw_later, throw, skip or "
              "zero_tensor, not ",
              word);
}

NormTensors clip_norm(at::TensorList gradients, double max_norm, double norm_type,
                      std::string_view on_non_finite,
                      const std::optional<at::Tensor>& inverse_scale) {
  ClipOptions options;
  options.input = ClipInput::kGradients;
  options.norm_type = norm_type;
  options.on_non_finite = non_finite_of(on_non_finite);
  options.inverse_scale = inverse_scale.value_or(at::Tensor());
  const ClipResult result = clip_grad_norm_(gradients, max_norm, options);
  return {result.total_norm, result.coefficient, result.tensor_norms, result.max_abs,
          result.nan_counts, result.inf_counts,  result.first_bad,    result.found_inf};
}

std::tuple<at::Tensor, at::Tensor> clip_value(at::TensorList gradients, double limit) {
  const ValueClipResult result = clip_grad_value_(gradients, limit, ClipInput::kGradients);
  return {result.nan_counts, result.inf_counts};
}

TORCH_LIBRARY_FRAGMENT(ddpscope, library) {
  library.def(
      "clip_grad_norm_(Tensor(a!)[] gradients, float max_norm, float norm_type=2.0, "
      "str on_non_finite=\"propagate\", Tensor? inverse_scale=None) -> (Tensor total_norm, "
      "Tensor coefficient, Tensor tensor_norms, Tensor max_abs, Tensor nan_counts, "
      "Tensor inf_counts, Tensor first_bad, Tensor found_inf)",
      &clip_norm);
  library.def(
      "clip_grad_value_(Tensor(a!)[] gradients, float limit) -> (Tensor nan_counts, "
      "Tensor inf_counts)",
      &clip_value);
}

}  // namespace
}  // namespace ddpscope::clip
