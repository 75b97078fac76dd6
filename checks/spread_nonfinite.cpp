#include "checks/spread_nonfinite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/fingerprint.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
constexpr std::string_view kArrived = "numeric-nonfinite-gradient";
constexpr char kOtherRank[] = "other_rank";

bool has_cause(const Finding& finding, const std::string& word) {
  const FactValue* cause = find_fact(finding, fact::kCause);
  return cause != nullptr && *cause == FactValue(word);
}

/// Before it was looked at.
bool was_averaged(const Finding& finding) { return has_cause(finding, kAfterAveraging); }

bool is_in(const RankList& ranks, std::int64_t rank) {
  return std::ranges::binary_search(ranks, rank);
}

/// Those of the earliest step.
std::vector<Finding*> origins_in(const Cohort& cohort, const std::vector<Finding*>& all) {
  std::vector<Finding*> origins;
  for (Finding* finding : all) {
    const bool fits = spreads_over_ranks(*finding) && is_in(cohort.ranks, finding->rank);
    if (!fits || (!origins.empty() && origins.front()->step < finding->step)) continue;
    if (!origins.empty() && origins.front()->step > finding->step) origins.clear();
    origins.push_back(finding);
  }
  return origins;
}

RankList ranks_of(const std::vector<Finding*>& origins) {
  RankList ranks;
  for (const Finding* origin : origins) {
    const RankList own = origin->ranks.empty() ? RankList{origin->rank} : origin->ranks;
    ranks.insert(ranks.end(), own.begin(), own.end());
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void say_where_it_began(Finding& origin, const RankList& ranks, const Cohort& cohort) {
  if (find_fact(origin, fact::kOriginRanks) != nullptr) return;
  set_fact(origin, fact::kOriginRanks, as_fact(ranks));
  origin.why += origin_words(ranks, cohort);
}

void fold_below(Finding& cause, Finding& effect) {
  effect.caused_by = cause.fingerprint;
  effect.causal_role = CausalRole::kCascade;
  if (cause.caused_by.empty()) cause.causal_role = CausalRole::kInitiating;
}

/// Returns the fingerprint it had. Of the same parameter it would be that of the origin.
std::string follow(Finding& effect, Finding& cause) {
  set_fact(effect, fact::kCause, std::string(kOtherRank));
  fold_below(cause, effect);
  return std::exchange(effect.fingerprint, fingerprint_of(effect));
}

/// The norm of gradients into which the origin's were averaged, or what steps do to parameters that
/// are not finite.
bool is_made_of(const Finding& cause, const Finding& effect, bool is_of_other) {
  if (!effect.caused_by.empty() || effect.step < cause.step) return false;
  const bool is_norm = is_of_other && effect.id == "clip-nonfinite-norm";
  return effect.id == "optim-update-size" || (is_norm && effect.step <= cause.step + 1);
}

/// What explains the origin on its own rank.
void mark_root(const Finding& cause, const std::vector<Finding*>& all) {
  for (Finding* finding : all) {
    const bool is_root = finding->rank == cause.rank && finding->caused_by.empty() &&
                         finding->fingerprint == cause.caused_by;
    if (is_root) finding->causal_role = CausalRole::kInitiating;
  }
}

void fold_in(const Cohort& cohort, const std::vector<Finding*>& all) {
  const auto origins = origins_in(cohort, all);
  if (origins.empty()) return;
  // Where it began was not looked at: what comes of it tells no rank.
  const bool is_late = std::ranges::any_of(all, [&](const Finding* finding) {
    return was_averaged(*finding) && is_in(cohort.ranks, finding->rank) &&
           finding->step < origins.front()->step;
  });
  if (is_late) return;
  const RankList ranks = ranks_of(origins);
  for (Finding* origin : origins) say_where_it_began(*origin, ranks, cohort);
  Finding& cause = *origins.front();
  std::map<std::pair<std::int64_t, std::string>, std::string> renamed;  // by rank
  std::vector<Finding*> others;
  for (Finding* finding : all) {
    if (!is_in(cohort.ranks, finding->rank)) continue;
    const bool is_other = !is_in(ranks, finding->rank);
    const bool is_spread = is_other && finding->id.starts_with("numeric-nonfinite-") &&
                           finding->severity == Severity::kError &&
                           finding->step >= cause.step + (was_averaged(*finding) ? 0 : 1);
    if (is_spread) {
      const std::string before = follow(*finding, cause);
      renamed[{finding->rank, before}] = finding->fingerprint;
    } else {
      others.push_back(finding);
    }
    if (is_made_of(cause, *finding, is_other)) fold_below(cause, *finding);
  }
  if (ranks.size() < cohort.ranks.size()) mark_root(cause, all);
  for (Finding* finding : others) {
    const auto known = renamed.find({finding->rank, finding->caused_by});
    if (known != renamed.end()) finding->caused_by = known->second;
  }
}

struct HostCount {
  std::string host;
  std::int64_t occurrences = 0;
  std::vector<Finding*> findings;
};

bool began_on_its_rank(const Finding& finding) {
  return finding.id == kArrived && !has_cause(finding, kOtherRank) && !was_averaged(finding);
}

/// Of the ranks of one cohort; hosts that are not known are none.
std::vector<HostCount> by_host(const RanksComparedEvent& run, const Cohort& cohort,
                               const std::vector<Finding*>& all) {
  std::map<std::string, HostCount> counts;
  for (const RankEnding& rank : run.endings.ranks) {
    if (rank.host.empty() || !is_in(cohort.ranks, rank.rank)) continue;
    HostCount& count = counts[rank.host];
    count.host = rank.host;
    for (Finding* finding : all) {
      if (finding->rank != rank.rank || !began_on_its_rank(*finding)) continue;
      count.occurrences += std::max<std::int64_t>(finding->occurrences, 1);
      count.findings.push_back(finding);
    }
  }
  std::vector<HostCount> hosts;
  for (auto& [host, count] : counts) hosts.push_back(std::move(count));
  return hosts;
}

void say_how_often(const HostCount& host, bool is_suspect) {
  for (Finding* finding : host.findings) {
    set_fact(*finding, fact::kHostRepeatCount, host.occurrences);
    if (!is_suspect) continue;
    finding->why += fmt::format(
        "; it began {} times on host {} and on no other: perhaps its hardware is at fault",
        host.occurrences, host.host);
    finding->fixes.push_back({fmt::format("test the memory and the devices of {}", host.host),
                              Applicability::kNeedsDecision});
  }
}
}  // namespace

void suspect_hosts(const RanksComparedEvent& run, const std::vector<Finding*>& all) {
  constexpr std::int64_t kSuspect = 3;
  for (const Cohort& cohort : run.cohorts) {
    if (!cohort.averages || cohort.ranks.size() < 2) continue;
    const std::vector<HostCount> hosts = by_host(run, cohort, all);
    const auto affected =
        std::ranges::count_if(hosts, [](const HostCount& host) { return host.occurrences > 0; });
    for (const HostCount& host : hosts) {
      const bool is_alone = affected == 1 && hosts.size() > 1;
      say_how_often(host, is_alone && host.occurrences >= kSuspect);
    }
  }
}

bool spreads_over_ranks(const Finding& finding) {
  return finding.id == kArrived && finding.severity == Severity::kError && !finding.suppressed &&
         !was_averaged(finding);
}

std::string origin_words(const RankList& ranks, const Cohort& cohort) {
  if (ranks.size() == cohort.ranks.size()) {
    return "; every rank had one in that step, which points at weights or learning rate";
  }
  return fmt::format("; of {} it was so on {} alone", rank_words(cohort.ranks), rank_words(ranks));
}

void fold_spread_nonfinite(const RanksComparedEvent& run, const std::vector<Finding*>& all) {
  for (const Cohort& cohort : run.cohorts) {
    if (cohort.averages && cohort.ranks.size() > 1) fold_in(cohort, all);
  }
}

}  // namespace ddpscope
