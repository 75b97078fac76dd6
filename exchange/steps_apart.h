#pragma once

#include <string>

#include "exchange/digest_walk.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// Where some ranks alone have a model and an optimizer of it, or make steps alone in between,
/// their steps are others from then on: what was found by comparing them is forgotten. Returns what
/// to remark of it, if anything.
std::string forget_steps_apart(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
