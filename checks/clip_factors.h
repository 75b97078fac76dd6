#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// The least and the largest factor that ranks clipped by, with `value_per_rank`.
void add_factors(const DigestsDiffer& differ, Finding& finding);

/// `0.07 on rank 1, 0.11 on rank 0`
std::string factors_text(const std::vector<RankSide>& sides);

/// Says of gradients that single ranks clipped before averaging by which factors the others did,
/// and from which norms.
void tell_clip_factors(const RanksComparedEvent& run, const std::vector<Finding*>& all);

}  // namespace ddpscope
