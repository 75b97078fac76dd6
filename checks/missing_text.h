#pragma once

#include "checks/missing_cause.h"
#include "checks/subtree.h"
#include "model/rank_compare_event.h"
#include "model/reducer_event.h"

namespace ddpscope {

/// Parameters without a gradient in so many cycles.
Finding missing_finding(const TensorGroup& group, const MissingCause& cause, std::int64_t cycles,
                        const RunState& state);

/// Parameters whose gradients come of the losses of others alone, which are cleared before the
/// steps of their own optimizer.
Finding foreign_finding(const TensorGroup& group, std::int64_t steps, const RunState& state);

/// Where the path of these was cut, if it was.
void add_cut(const MissingCause& cause, const RunState& state, Finding& finding);

/// Parameters without a gradient in one pass of a Reducer, which waits for them.
Finding awaited_finding(const ReducerEvent& pass, const TensorGroup& group,
                        const MissingCause& cause);

/// What kept gradients from parameters on the ranks that lack them, up to `; `; nothing where it is
/// not the same on all of these ranks, or not known.
std::string missing_words_of_ranks(const std::vector<RankSide>& causes);

}  // namespace ddpscope
