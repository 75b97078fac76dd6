#pragma once

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// Gradients that differed between the ranks of `cohort` when they stepped, in two compared steps
/// in a row: grad-not-reduced over all ranks. Adds nothing where they did not, nor, while they
/// train, where that may be meant.
void find_unreduced(const Cohort& cohort, bool is_live, Findings& findings);

/// The same of ranks that average within smaller groups alone, which may be meant: a note.
void find_split(const Cohort& apart, Findings& findings);

}  // namespace ddpscope
