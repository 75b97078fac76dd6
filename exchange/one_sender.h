#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Fills in in which steps equal parameters were those of one rank, as it broadcast them and
/// nothing else went between ranks that had trained each on batches of its own.
void compare_senders(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
