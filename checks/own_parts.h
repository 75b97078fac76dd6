#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// They differ before the first step beside others that were made equal: each rank may hold a part
/// of its own, as an expert or a shard, or one broadcast left them out.
bool may_be_own_parts(const ValuesDiffer& values);

/// They are: in each step all-to-alls send ranks what forwards compute, and what backwards do.
bool are_routed_parts(const ValuesDiffer& values, const Cohort& cohort);
/// Whether the gradients that differ in this step are of such.
bool are_of_routed_parts(const ReductionStep& step, const Cohort& cohort);
/// That they are, behind the reason of a finding, which is then a note.
void tell_routed_parts(Finding& finding);

/// Where `path` is one of those, else null.
const ValuesDiffer* own_parts_with(const std::string& path, const Cohort& cohort);

std::string why_own_parts();
std::vector<Fix> fixes_for_own_parts(const ValuesDiffer& values);

/// How to tell ddpscope so.
Fix declare_own_parts(const ValuesDiffer& values);

}  // namespace ddpscope
