#include "exchange/cohorts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "model/rank_words.h"

namespace ddpscope {
namespace {
using Cohorts = std::vector<std::set<std::int64_t>>;

/// A rank that averages with itself alone in some steps, and with others in other steps alone.
bool is_left_alone(std::uint64_t key, const GroupCalls& group, const RankCalls& rank) {
  if (group_size(key) != 1) return false;
  bool averages_with_others = false;
  for (const auto& [other, calls] : rank.groups) {
    if (group_size(other) <= 1 || !calls.writes_gradients) continue;
    averages_with_others = true;
    for (const std::int32_t step : calls.write_steps) {
      if (std::ranges::binary_search(group.write_steps, step)) return false;
    }
  }
  return averages_with_others;
}

/// Cohorts that share a rank become one.
void join(Cohorts& cohorts, std::set<std::int64_t> ranks) {
  Cohorts apart;
  for (auto& cohort : cohorts) {
    const bool shares =
        std::ranges::any_of(cohort, [&ranks](std::int64_t rank) { return ranks.contains(rank); });
    if (shares) {
      ranks.merge(cohort);
    } else {
      apart.push_back(std::move(cohort));
    }
  }
  apart.push_back(std::move(ranks));
  cohorts = std::move(apart);
}
}  // namespace

std::vector<RankList> parts_of(const RankList& cohort, const std::vector<RankList>& groups) {
  std::vector<RankList> parts;
  RankList members;
  for (const RankList& group : groups) {
    const bool is_part = group.size() < cohort.size() && std::ranges::includes(cohort, group);
    if (!is_part || std::ranges::count(parts, group) > 0) continue;
    parts.push_back(group);
    members.insert(members.end(), group.begin(), group.end());
  }
  std::ranges::sort(parts);
  std::ranges::sort(members);
  return members == cohort ? parts : std::vector<RankList>();
}

RankCohorts cohorts_of(const std::vector<RankCalls>& calls) {
  std::map<std::uint64_t, std::set<std::int64_t>> averaging;
  std::set<std::int64_t> all;
  for (const RankCalls& rank : calls) {
    all.insert(rank.rank);
    for (const auto& [key, group] : rank.groups) {
      const bool averages = group.writes_gradients && !is_left_alone(key, group, rank);
      if (averages) averaging[key].insert(rank.rank);
    }
  }
  RankCohorts result;
  Cohorts cohorts;
  bool are_complete = true;
  for (auto& [key, ranks] : averaging) {
    are_complete = are_complete && group_size(key) == std::ssize(ranks);
    result.groups.emplace_back(ranks.begin(), ranks.end());
    const auto size = group_size(key);
    if (size == 0 || static_cast<std::int64_t>(ranks.size()) <= size) {
      join(cohorts, ranks);
    } else {
      result.remarks.push_back(rank_words(RankList(ranks.begin(), ranks.end())) +
                               " average in groups of " + std::to_string(size) +
                               " that have one name; their steps are not compared");
    }
  }
  if (cohorts.size() <= 1 && result.remarks.empty()) {
    if (are_complete && !cohorts.empty()) {
      std::ranges::set_difference(all, cohorts.front(), std::back_inserter(result.outside));
    }
    cohorts = {all};
  }
  for (const auto& cohort : cohorts) result.cohorts.emplace_back(cohort.begin(), cohort.end());
  std::ranges::sort(result.cohorts);
  return result;
}

std::set<std::uint64_t> groups_across(const std::vector<RankList>& cohorts,
                                      const std::vector<RankCalls>& calls) {
  std::map<std::uint64_t, const RankList*> first;
  std::set<std::uint64_t> across;
  for (const RankCalls& rank : calls) {
    const auto own = std::ranges::find_if(cohorts, [&rank](const RankList& cohort) {
      return std::ranges::binary_search(cohort, rank.rank);
    });
    const RankList* const cohort = own == cohorts.end() ? nullptr : &*own;
    for (const auto& [key, group] : rank.groups) {
      const auto [known, is_new] = first.try_emplace(key, cohort);
      if (!is_new && known->second != cohort) across.insert(key);
    }
  }
  return across;
}

}  // namespace ddpscope
