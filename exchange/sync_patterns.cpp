#include "exchange/sync_patterns.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <vector>

#include "exchange/sides.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kInARow = 2;

using Patterns = std::map<std::int64_t, std::string>;  ///< by the step from which it holds

Patterns patterns_of(const RingReader& ring) {
  Patterns patterns;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind == BlobKind::kSyncPattern) patterns[blob.step] = blob.bytes;
  }
  return patterns;
}

std::string pattern_at(const Patterns& patterns, std::int64_t step) {
  const auto after = patterns.upper_bound(step);
  return after == patterns.begin() ? "" : std::prev(after)->second;
}

/// The text before its colon; empty without one.
std::string period_of(const std::string& pattern) {
  const std::size_t colon = pattern.find(": ");
  return colon == std::string::npos ? "" : pattern.substr(0, colon);
}

/// Averaged in some backward, but not after the last one.
bool is_unsynced(const std::string& pattern) {
  return pattern.size() > period_of(pattern).size() + 2 &&
         !pattern.ends_with(" " + period_of(pattern));
}

/// Of a run of steps in which no rank changes its pattern.
std::vector<RankSide> sides_at(const RingList& rings, const std::vector<Patterns>& all,
                               std::int64_t step) {
  std::map<std::string, RankList> ranks_of;
  const std::string period = period_of(pattern_at(all.front(), step));
  bool some_unsynced = false;
  for (std::size_t i = 0; i < rings.size(); ++i) {
    const std::string pattern = pattern_at(all[i], step);
    if (period.empty() || period_of(pattern) != period) return {};
    some_unsynced |= is_unsynced(pattern);
    ranks_of[pattern.substr(period.size() + 2)].push_back(rings[i]->head().rank);
  }
  const bool all_average = !ranks_of.contains("");
  return some_unsynced && all_average ? as_sides(ranks_of) : std::vector<RankSide>();
}
}  // namespace

std::string sync_pattern_text(std::int64_t backwards, const std::set<std::int64_t>& averaged) {
  if (backwards < 2) return "-";
  std::string numbers;
  for (const std::int64_t number : averaged) {
    numbers += (numbers.empty() ? "" : " ") + std::to_string(number);
  }
  return std::to_string(backwards) + ": " + numbers;
}

void compare_sync_patterns(const RingList& rings, Cohort& cohort) {
  if (rings.size() < 2 || rings.size() < cohort.ranks.size() || cohort.counts.empty()) return;
  std::vector<Patterns> all;
  std::set<std::int64_t> changes;
  for (const RingReader* ring : rings) {
    all.push_back(patterns_of(*ring));
    for (const auto& [step, pattern] : all.back()) changes.insert(step);
  }
  changes.insert(std::ranges::min(cohort.counts, {}, &RankCounts::step).step + 1);
  for (auto step = changes.begin(); std::next(step) != changes.end(); ++step) {
    const std::int64_t steps = *std::next(step) - *step;
    auto sides = sides_at(rings, all, *step);
    if (steps < kInARow || sides.size() < 2) continue;
    const std::string period = period_of(pattern_at(all.front(), *step));
    SyncPatternsDiffer differ{.step = *step, .steps = steps, .sides = std::move(sides)};
    std::from_chars(period.data(), period.data() + period.size(), differ.period);
    cohort.patterns.push_back(std::move(differ));
    return;
  }
}

}  // namespace ddpscope
