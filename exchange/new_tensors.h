#pragma once

#include "exchange/digest_walk.h"
#include "model/tensors_differ.h"

namespace ddpscope {

/// Whether no rank listed any of the tensors that differ by the end of the step before, so that no
/// optimizer has stepped them: a program may register more while it trains.
bool are_new(const RingList& rings, const ValuesDiffer& values);

}  // namespace ddpscope
