#pragma once

#include "model/tensor_info.h"

namespace ddpscope {

/// Whether the rank file gets a record of the step that `at` lies in: of each of the first ones,
/// then of the steps of one cycle in 64.
constexpr bool is_step_recorded(const Stamp& at) {
  constexpr std::int64_t kEach = 64;
  return at.step <= kEach || at.cycle % kEach == 0;
}

}  // namespace ddpscope
