#pragma once

#include <cstdint>
#include <vector>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Steps before whose backward all ranks reduced as many elements as their parameters have, of
/// ranks on which, in each step that is known, these moved by what SGD makes of the gradients and
/// by nothing else. Empty where anything else moved them.
std::vector<std::int64_t> steps_of_dropped_averages(const RingList& rings, const Cohort& cohort);

}  // namespace ddpscope
