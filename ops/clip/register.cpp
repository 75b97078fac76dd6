// What other languages call: torch.ops.load_library("libddpscope.so"), then torch.ops.ddpscope.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ddpscope/ops/clip_grad.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/traced.h"

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

/// Of an empty list on the CPU, as where they are not traced.
at::TensorOptions options_of(at::TensorList gradients) {
  return gradients.empty() ? at::TensorOptions() : gradients[0].options().layout(at::kStrided);
}

/// The results for gradients of which only the shapes are known.
NormTensors follow_norm(at::TensorList gradients, double, double, std::string_view,
                        const std::optional<at::Tensor>&) {
  const auto empty = [&](at::IntArrayRef sizes, at::ScalarType dtype) {
    return at::empty(sizes, options_of(gradients).dtype(dtype));
  };
  const std::int64_t each[] = {static_cast<std::int64_t>(gradients.size())};
  return {empty({}, at::kDouble),   empty({}, at::kDouble), empty(each, at::kDouble),
          empty(each, at::kDouble), empty(each, at::kLong), empty(each, at::kLong),
          empty({}, at::kLong),     empty({}, at::kFloat)};
}

std::tuple<at::Tensor, at::Tensor> follow_value(at::TensorList gradients, double) {
  const auto counts = at::empty({static_cast<std::int64_t>(gradients.size())},
                                options_of(gradients).dtype(at::kLong));
  return {counts, at::empty_like(counts)};
}

/// A list that is traced leaves the operator in the graph. No gradient passes any clip.
template <const char* kName, auto kFunction, class... Rest>
auto run_or_trace(at::TensorList gradients, Rest... rest) {
  if (std::none_of(gradients.begin(), gradients.end(), ops::is_traced)) {
    return kFunction(gradients, rest...);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(kName, "")
      .typed<std::remove_pointer_t<decltype(kFunction)>>()
      .call(gradients, rest...);
}

constexpr char kNormName[] = "ddpscope::clip_grad_norm_";
constexpr char kValueName[] = "ddpscope::clip_grad_value_";

NormTensors trace_norm(at::TensorList gradients, double max_norm, double norm_type,
                       std::string_view on_non_finite,
                       const std::optional<at::Tensor>& inverse_scale) {
  return run_or_trace<kNormName, &clip_norm, double, double, std::string_view,
                      const std::optional<at::Tensor>&>(gradients, max_norm, norm_type,
                                                        on_non_finite, inverse_scale);
}

std::tuple<at::Tensor, at::Tensor> trace_value(at::TensorList gradients, double limit) {
  return run_or_trace<kValueName, &clip_value>(gradients, limit);
}

TORCH_LIBRARY_FRAGMENT(ddpscope, library) {
  library.def(
      "clip_grad_norm_(Tensor(a!)[] gradients, float max_norm, float norm_type=2.0, "
      "str on_non_finite=\"propagate\", Tensor? inverse_scale=None) -> (Tensor total_norm, "
      "Tensor coefficient, Tensor tensor_norms, Tensor max_abs, Tensor nan_counts, "
      "Tensor inf_counts, Tensor first_bad, Tensor found_inf)");
  library.def(
      "clip_grad_value_(Tensor(a!)[] gradients, float limit) -> (Tensor nan_counts, "
      "Tensor inf_counts)");
}

TORCH_LIBRARY_IMPL(ddpscope, CompositeExplicitAutograd, library) {
  library.impl("clip_grad_norm_", &clip_norm);
  library.impl("clip_grad_value_", &clip_value);
}

TORCH_LIBRARY_IMPL(ddpscope, Autograd, library) {
  library.impl("clip_grad_norm_", &trace_norm);
  library.impl("clip_grad_value_", &trace_value);
}

TORCH_LIBRARY_IMPL(ddpscope, Meta, library) {
  library.impl("clip_grad_norm_", &follow_norm);
  library.impl("clip_grad_value_", &follow_value);
}

}  // namespace
}  // namespace ddpscope::clip
