#include "tools/live_findings.h"

#include <algorithm>
#include <iterator>

#include "checks/check_table.h"
#include "checks/epoch_forecast.h"
#include "checks/hang_text.h"
#include "checks/rank_links.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
// Ranks that hung are ended, and what is left of them knows less.
constexpr std::string_view kHang = "collective-hang";
// Who left no records is known at the merge.
constexpr std::string_view kMissing = "tool-rank-missing";

/// What this rank found for others as well, or for another one.
bool is_of_all_ranks(const Finding& finding, std::int64_t rank) {
  const CheckRow* row = find_check(finding.id);
  if (row == nullptr) return false;
  const bool is_own = finding.ranks.size() <= 1 && finding.rank == rank;
  return finding.id == kMissing || is_over_ranks(*row) || (is_also_over_ranks(*row) && !is_own);
}

const FactValue* fact_of(const Finding& finding, std::string_view key) {
  const auto fact = std::ranges::find(finding.facts, key, &Fact::key);
  return fact == finding.facts.end() ? nullptr : &fact->value;
}

/// A hang by ranks that had left no records where this one looked, of which there are some here.
bool is_overtaken(const Finding& finding, const std::vector<RankFile*>& files) {
  if (finding.id == kMissing) return true;
  const FactValue* state = fact_of(finding, fact::kState);
  if (finding.id != kHang || state == nullptr) return false;
  return *state == FactValue(std::string(absence_word(Absence::kUnknown))) &&
         std::ranges::all_of(finding.ranks, [&files](std::int64_t rank) {
           return std::ranges::any_of(files, [rank](auto* file) { return file->run.rank == rank; });
         });
}

bool all_ended_cleanly(const std::vector<RankFile*>& files) {
  return !files.empty() && std::ssize(files) >= files.front()->run.world_size &&
         std::ranges::all_of(files, [](const RankFile* file) {
           return file->summary && file->summary->clean_exit;
         });
}

bool tell_of_one_field(const Finding& a, const Finding& b) {
  const FactValue* first = fact_of(a, fact::kField);
  const FactValue* second = fact_of(b, fact::kField);
  return first == nullptr || second == nullptr ? first == second : *first == *second;
}

bool share_a_rank(const Finding& a, const Finding& b) {
  return std::ranges::any_of(
      a.ranks, [&b](std::int64_t rank) { return std::ranges::count(b.ranks, rank) > 0; });
}

/// Of the same thing, which may look different once its first steps are forgotten.
bool tell_of_the_same(const Finding& a, const Finding& b) {
  if (!a.fingerprint.empty() && a.fingerprint == b.fingerprint) return true;
  return a.id == b.id && a.id != kHang && tell_of_one_field(a, b) && share_a_rank(a, b);
}

void take_place_of(Finding& at_merge, Finding&& live) {
  live.causal_role = at_merge.causal_role;
  live.caused_by = at_merge.caused_by;
  if (!live.suppressed) {
    live.suppressed = at_merge.suppressed;
    live.suppression_reason = at_merge.suppression_reason;
  }
  at_merge = std::move(live);
}
}  // namespace

Findings take_live_findings(const std::vector<RankFile*>& files) {
  Findings live;
  for (RankFile* file : files) {
    const auto kept = std::ranges::stable_partition(file->findings, [file](const Finding& finding) {
      return !is_of_all_ranks(finding, file->run.rank);
    });
    std::ranges::move(kept, std::back_inserter(live));
    file->findings.erase(kept.begin(), kept.end());
  }
  std::erase_if(live, [&files](const Finding& finding) { return is_overtaken(finding, files); });
  if (all_ended_cleanly(files)) {
    for (Finding& finding : live) {
      if (finding.id == kHang) tell_as_wait(finding);
    }
  }
  std::ranges::stable_sort(live, {}, &Finding::step);
  return live;
}

void add_live_findings(Findings&& live, const std::vector<Finding*>& of_ranks, Findings& at_merge) {
  for (Finding& finding : live) {
    const CheckRow* row = find_check(finding.id);
    const bool is_told = std::ranges::any_of(of_ranks, [&finding](const Finding* own) {
      return own->id == finding.id && std::ranges::count(finding.ranks, own->rank) > 0;
    });
    if (is_told && row != nullptr && is_also_over_ranks(*row)) continue;
    const bool has_come = is_forecast(finding) &&
                          std::ranges::find(at_merge, finding.id, &Finding::id) != at_merge.end();
    if (has_come) continue;
    const auto twin = std::ranges::find_if(
        at_merge, [&](const Finding& other) { return tell_of_the_same(finding, other); });
    if (twin == at_merge.end()) {
      at_merge.push_back(std::move(finding));
    } else if (finding.id == kHang || finding.step < twin->step) {
      take_place_of(*twin, std::move(finding));
    }
  }
  std::vector<Finding*> all = of_ranks;
  for (Finding& finding : at_merge) all.push_back(&finding);
  link_over_ranks(all);
}

}  // namespace ddpscope
