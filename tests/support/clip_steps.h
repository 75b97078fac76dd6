#pragma once

#include <optional>
#include <vector>

#include "tests/support/events.h"

namespace ddpscope::test {

/// A clip as `torch::nn::utils::clip_grad_norm_` does it, of all gradients from `first` on.
inline void clip(Program& program, const ClipQuotient& of, std::int64_t gradients = 2,
                 TensorId first = 1) {
  const double quotient = of.limit / of.norm;
  program.send_now(GradientsScaledEvent{.factor = quotient > 1 ? 1 : quotient,
                                        .by_tensor = true,
                                        .gradients = gradients,
                                        .first = first,
                                        .quotient = of});
}
inline void clip(Program& program, double limit, double norm, std::int64_t gradients = 2,
                 TensorId first = 1) {
  clip(program, ClipQuotient{limit, norm}, gradients, first);
}

/// Gradients times a number.
inline void scale(Program& program, double factor, std::int64_t gradients = 2, TensorId first = 1) {
  program.send_now(GradientsScaledEvent{.factor = factor, .gradients = gradients, .first = first});
}

inline void nonfinite(Program& program, TensorId tensor, ValueRange values) {
  program.send_now(NonfiniteGradientEvent{.tensor = tensor, .values = values});
}

/// Gradients of this norm arrived, each with the same share of it.
inline void arrived(Program& program, double norm, const std::vector<TensorId>& tensors = {1, 2}) {
  const double share = norm * norm / static_cast<double>(tensors.size());
  for (const TensorId tensor : tensors) {
    program.send_now(GradientValuesEvent{
        .tensor = tensor, .values = {.elements = 4}, .sum_of_squares = share, .dtype = "float32"});
  }
}

}  // namespace ddpscope::test
