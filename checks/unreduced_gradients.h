#pragma once

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// What differs in it was reduced by nothing, or parted after it: the program did so. In another
/// step that alone differs, something went wrong.
bool was_left_out(const ReductionStep& step);

/// Gradients that differed between the ranks of `cohort` when they stepped, in two compared steps
/// in a row, or in steps that were left out: grad-not-reduced over all ranks. Adds nothing where
/// they did not, nor, while they train, where that may be meant. `like`: other ranks, of as many
/// replicas, that average theirs; or null.
void find_unreduced(const Cohort& cohort, const Cohort* like, bool is_live, Findings& findings);

/// The same of ranks that average within smaller groups alone, which may be meant: a note, but for
/// groups that divide what they sum up by the number of all ranks.
void find_split(const RanksComparedEvent& run, Findings& findings);

}  // namespace ddpscope
