#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// After which backwards of a step, counted from 1, a rank averaged gradients: `4: 1 3` of four;
/// `-` of a step with fewer than two.
std::string sync_pattern_text(std::int64_t backwards, const std::set<std::int64_t>& averaged);

/// Fills in whether ranks average after different backwards of the same steps.
void compare_sync_patterns(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
