#pragma once

#include "model/rank_compare_event.h"

namespace ddpscope {

/// Steps that ranks take by themselves between two averages of their weights, after they averaged
/// gradients or before they do.
struct LocalUpdates {
  enum class Kind { kNone, kMaybe, kFound };
  Kind kind = Kind::kNone;
  std::int64_t equal_again = 0;  ///< where found: the step in which parameters were, when it began
  std::int64_t period = 0;       ///< steps until they were once more; 0: not known
  bool of_some = false;          ///< only some of the parameters were
  /// Found, though they never were: of so many compared `steps` these exchanged tensors.
  std::int64_t exchanging = 0;
  std::int64_t steps = 0;
};

/// From `first` on, whose gradients differ. `kMaybe`: ranks that averaged before have not trained
/// long enough since to be told from those that stopped by mistake.
LocalUpdates local_updates(const Cohort& cohort, const ReductionStep& first);
/// Of the first such step before `step`.
LocalUpdates local_updates_before(const Cohort& cohort, std::int64_t step);

/// Makes a note of what the ranks do on purpose as far as is known, says why, and asks before what
/// would mend it: local updates that were found, or `by_part` a difference between parts of the
/// cohort. Else nothing.
void tell_meant(const Cohort& cohort, const LocalUpdates& local, bool by_part, Finding& finding);

}  // namespace ddpscope
