#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// Steps in which the gradients before and after their reduction are compared, hooks awake: some in
/// a row, so that what lasts is told from what happened once.
constexpr bool is_reduction_step(std::int64_t step) { return step <= 64 || step % 16 < 4; }

/// What one pass over a gradient tells; sums over ranks of `sums` are those of the sum.
struct GradientSketch {
  double squares = 0;  ///< sum of the squares; NaN: an element is not finite
  std::array<double, 4> sums{};
};
/// Of what was not read.
inline constexpr GradientSketch kNoSketch{.squares = std::numeric_limits<double>::quiet_NaN()};

/// The gradient of one parameter, before the ranks averaged it and after.
struct ReducedGradient {
  TensorId tensor = 0;
  GradientSketch before;  ///< when it had arrived for the last time
  /// Of all that arrived in the step, where it was cleared in between.
  std::optional<GradientSketch> total;
  GradientSketch after;           ///< when its optimizer began to step
  std::uint64_t fingerprint = 0;  ///< of its bits, then
  bool grew_after = false;        ///< a gradient arrived at what had been averaged
};

/// Of some parameters, which every rank chooses alike; level values.
struct ReducedGradientsEvent {
  Stamp at;
  bool watched = true;  ///< hooks ran, so that factors were seen
  std::vector<ReducedGradient> gradients;
  /// Those that arrived and that this optimizer does not have: of them `after` says nothing.
  std::vector<ReducedGradient> left = {};
};

/// What the first forward of a step was given to train with: tensors that no parameter, buffer or
/// operator with a gradient made, as the first layers read them.
struct BatchEvent {
  Stamp at;
  std::uint64_t fingerprint = 0;    ///< of up to 1024 elements at equal distances, and of shapes
  std::vector<std::int64_t> shape;  ///< of the first of them
  const char* dtype = "";
};

/// What the generator of the CPU held before the first dropout, or the first random numbers in
/// the middle of a forward, of a step that is trained; survey steps, where there are several ranks.
struct RandomStateEvent {
  Stamp at;
  const char* op = "";
  ModuleId module = 0;
  std::uint64_t seed = 0;
  std::uint64_t fingerprint = 0;  ///< of the whole state
};

}  // namespace ddpscope
