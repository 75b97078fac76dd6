#pragma once

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// Ranks of `cohort` that average after other micro-batches of the same steps, some of them not
/// after the last: grad-accumulation-unsynced over all ranks. Adds nothing where they do not.
void find_unsynced(const Cohort& cohort, Findings& findings);

}  // namespace ddpscope
