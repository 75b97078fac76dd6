#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exchange/rank_ring.h"

namespace ddpscope {

// Steps that a rank made alone are no steps of the others: what follows counts from their end, on
// each rank.

/// Of a step that those before were taken off.
constexpr std::int64_t step_after(std::int64_t step, std::int64_t lone) {
  return step > lone ? step - lone : std::min<std::int64_t>(step, 0);
}
/// Of a step after them.
void count_from(const LoneSteps& lone, StepDigest& digest);
/// Leaves out what tells of these steps alone.
void count_from(const LoneSteps& lone, std::vector<Blob>& blobs);

}  // namespace ddpscope
