#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Of buffers that differ before the first step: leaves out those that each rank writes in every
/// step, and that were equal when their model was attached. A forward wrote them before its first
/// layer read. Where no other is left, it is a difference of step 1.
void leave_out_written(const RingList& rings, ValuesDiffer& values);

}  // namespace ddpscope
