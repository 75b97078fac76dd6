#pragma once

#include <cstdint>
#include <vector>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Steps of ranks that train equal parameters on batches of their own, each a part of them, and
/// give each other these parts between their steps and nothing between backward and step: a part
/// is trained by the gradients of one rank. Empty where a call of any step may have brought others.
std::vector<std::int64_t> steps_of_unreduced_parts(const RingList& rings, const Cohort& cohort);

}  // namespace ddpscope
