#pragma once

#include <vector>

#include "model/rank_compare_event.h"

namespace ddpscope {

/// Ranks that wait in a collective, and those that never come to it.
struct Parted {
  RankList waiting;
  RankList others;
  bool others_run = false;             ///< they may come to it yet
  const CallsDiffer* calls = nullptr;  ///< they issued another call in its place
};

std::vector<Parted> parted_ranks(const RanksComparedEvent& run);

struct Lag {
  RankList waiting;
  RankList lagging;
  std::int64_t waits_in = 0;     ///< the least number of backwards of the ranks that wait
  std::int64_t ended_after = 0;  ///< the largest of those that lag
  std::int64_t skipped = 0;      ///< backwards without a step, beyond those of the ranks that wait
  std::int64_t behind = 0;       ///< backwards of the slowest that still runs; two at least
  const CallSide* issued = nullptr;   ///< by those that lag in place of the call, at the end or
                                      ///< elsewhere
  const CallSide* awaited = nullptr;  ///< in its place by those that wait
};

/// Those of the others that ran fewer backwards than every rank that waits; where there are none,
/// those that left out the steps of more backwards. Of those that still run one backward less is
/// no lag.
Lag lag_of(const Parted& parted, const Cohort& cohort);

const RankCounts* counts_of_rank(const Cohort& cohort, std::int64_t rank);

}  // namespace ddpscope
