#pragma once

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// Ranks that make their losses with other operators: for rank-model-differs.
void find_other_operators(const Cohort& cohort, Findings& findings);
/// Ranks that train with layers in another mode: for module-mode.
void find_other_modes(const Cohort& cohort, Findings& findings);

}  // namespace ddpscope
