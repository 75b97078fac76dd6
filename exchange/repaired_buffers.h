#pragma once

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Of buffers that ranks change apart in a step: leaves out those that a collective of all these
/// ranks was given after each such step, before the next backward, as a broadcast or an average.
/// Nothing else may have used them before: where some rank evaluated or saved, none is left out.
/// Returns whether any is left.
bool leave_out_repaired(const RingList& rings, const Cohort& cohort, ValuesDiffer& values);

}  // namespace ddpscope
