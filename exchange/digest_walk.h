#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "exchange/rank_ring.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

using RingList = std::vector<const RingReader*>;  ///< of one cohort, by rank

/// Compares the ranks step by step and fills everything in `cohort` that digests tell: which
/// fields differ and from when on, counts, times. Calls `after_each` after each ring.
void walk_digests(const RingList& rings, Cohort& cohort, const std::function<void()>& after_each);

/// Whether an optimizer stepped on the rank, or may have been about to.
bool steps_itself(const RingReader& ring);

/// The digest of that step, if the ring still has it.
std::optional<StepDigest> find_digest(const RingReader& ring, std::int64_t step);

}  // namespace ddpscope
