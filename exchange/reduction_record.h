#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/reduction_event.h"

namespace ddpscope {

/// What one rank tells of the gradient of one parameter.
struct ToldReduction {
  std::uint32_t parameter = 0;  ///< place among the parameters of its model, as in kGradients
  GradientSketch before;
  /// Of all that arrived in the step, where it was cleared in between.
  std::optional<GradientSketch> total;
  GradientSketch after;
  std::uint64_t fingerprint = 0;  ///< after
  bool grew_after = false;        ///< a gradient arrived at what had been averaged
};

/// The weight of a loss that the ranks divided by a count of all of them: equal to none.
inline constexpr double kNoWeight = std::numeric_limits<double>::quiet_NaN();

/// The same of a loss that each rank divided by the rows of its own batch: what else the program
/// made of that count is not known.
inline constexpr double kOwnWeight = std::numeric_limits<double>::infinity();

/// Of a step in which factors were not seen.
inline constexpr double kUnknownWeight = 0;

/// Of a rank that takes its gradients out of the sum.
inline constexpr double kZeroWeight = std::numeric_limits<double>::min();

/// Of the parameters of one model that one optimizer is about to change.
struct ToldReductions {
  double clip_factor = 1;   ///< what the program's clipping has multiplied them with
  double weight = 1;        ///< what else of one factor for each it has multiplied them with
  std::uint64_t calls = 0;  ///< collectives since the last backward began
  std::vector<ToldReduction> gradients;
};

/// One of each registered parameter, then of each buffer.
std::string encode(const std::vector<GradientSketch>& sketches);
/// `kNoSketch` beyond the bytes.
GradientSketch decode_sketch(std::string_view bytes, std::size_t place);

std::string encode(const ToldReductions& told);
/// Nothing for bytes that `encode` did not write.
std::optional<ToldReductions> decode_reductions(std::string_view bytes);

}  // namespace ddpscope
