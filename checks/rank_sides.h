#pragma once

#include <string>
#include <vector>

#include "model/rank_compare_event.h"

namespace ddpscope {

/// `0.01 on rank 3, 0.1 on ranks 0-2,4-7`
std::string sides_text(const std::vector<RankSide>& sides);
/// `step 12`, or `one of steps 65-80` where those between are not known, as hooks rest.
std::string since_text(const DigestsDiffer& differ);
/// `3: 0.01`, one per side.
std::vector<FactScalar> per_side(const std::vector<RankSide>& sides);
std::vector<FactScalar> as_fact(const RankList& ranks);

/// Those that are fewer than the largest side; all where no side is the largest.
RankList minority_of(const std::vector<RankSide>& sides);
/// `rank 1 is unlike the others; `, empty where no side is the largest.
std::string minority_words(const std::vector<RankSide>& sides);
RankList all_of(const std::vector<RankSide>& sides);

/// What a difference between replicas weighs: an error where gradients are averaged, a warning
/// where equal replicas train without any exchange, else a note.
Severity severity_in(const Cohort& cohort);
/// Why it weighs less than an error, to follow another reason; else nothing.
std::string severity_words(const Cohort& cohort);

/// Whether the sides are the parts of the cohort that average over groups of their own.
bool are_parts(const std::vector<RankSide>& sides, const Cohort& cohort);

/// At the first of these ranks.
Finding finding_on(const RankList& ranks, std::int64_t step);

/// `trunk.conv` and `weight` of `trunk.conv.weight`.
void set_place(Finding& finding, const std::string& model, const std::string& path);

}  // namespace ddpscope
