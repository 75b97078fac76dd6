#pragma once

#include <cstdint>
#include <vector>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// The steps of `cohort.equal_steps` before which the ranks made the sum of their weights of them,
/// and not the mean. Empty unless all that can be told are of that kind.
std::vector<std::int64_t> steps_of_sums(const RingList& rings, const Cohort& cohort);

}  // namespace ddpscope
