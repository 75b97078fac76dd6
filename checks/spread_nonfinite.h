#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// The cause of gradients that were looked at only when they had been averaged.
inline constexpr char kAfterAveraging[] = "after_averaging";

/// Whether it tells of a gradient that averaging makes every rank's.
bool spreads_over_ranks(const Finding& finding);

/// Of ranks that average with each other: says of the first gradients that were not finite on which
/// of them they were so, and makes what other ranks find of it in later steps follow from that.
void fold_spread_nonfinite(const RanksComparedEvent& run, const std::vector<Finding*>& all);

/// Says how often such gradients began on one host. Where it was so three times there, and never on
/// another host, its hardware is a suspect.
void suspect_hosts(const RanksComparedEvent& run, const std::vector<Finding*>& all);

/// Of such ranks of the cohort; to follow another reason.
std::string origin_words(const RankList& ranks, const Cohort& cohort);

}  // namespace ddpscope
