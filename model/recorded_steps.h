#pragma once

#include "model/tensor_info.h"

namespace ddpscope {

/// Whether the rank file gets a record of the cycle that ends with this step: each of the first
/// ones, then two of 64 steps, as a cycle may take two. The same ones on all ranks.
constexpr bool is_step_recorded(const Stamp& at) {
  constexpr std::int64_t kEach = 64;
  return at.step <= kEach || at.step % kEach < 2;
}

}  // namespace ddpscope
