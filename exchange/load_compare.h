#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Fills in the steps in which some ranks alone read parameters from an archive.
void compare_loads(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
