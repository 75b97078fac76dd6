#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddpscope {

/// Of `elements` per parameter, those that are read in this step and how many of their elements:
/// the first, the last, the largest, and others in turn.
struct ChosenGradient {
  std::size_t index = 0;
  std::int64_t elements = 0;
};
std::vector<ChosenGradient> choose_gradients(const std::vector<std::int64_t>& elements,
                                             std::int64_t step);

}  // namespace ddpscope
