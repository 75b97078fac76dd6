#pragma once

#include "model/rank_compare_event.h"

namespace ddpscope {

/// Where some ranks alone have a model and an optimizer of it, their steps are others from then on:
/// what was found by comparing them is forgotten.
void forget_steps_apart(Cohort& cohort);

}  // namespace ddpscope
