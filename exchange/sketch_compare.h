#pragma once

#include "exchange/tensor_compare.h"

namespace ddpscope {

/// Fills `estimate` from the sketches that the ranks left of `values`: of running buffers when they
/// were last told, of all else in the step in which they differ first. Nothing where fewer than two
/// ranks left any.
void estimate_difference(const RingList& rings, const DigestsDiffer& difference,
                         ValuesDiffer& values);

}  // namespace ddpscope
