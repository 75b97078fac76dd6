#include "report/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ddpscope {
namespace {

using RankSet = std::set<std::int64_t>;

/// What all ranks and findings say about one check.
struct Evidence {
  RankSet ran;
  RankSet unfinished;
  RankSet failed;
  std::int64_t suppressed = 0;
  std::map<std::string, RankSet> blocked;  ///< by reason
};
using EvidenceById = std::map<std::string, Evidence>;

std::vector<std::int64_t> as_list(const RankSet& ranks) { return {ranks.begin(), ranks.end()}; }

void add_file(EvidenceById& evidence, const RankFile& file) {
  const std::int64_t rank = file.run.rank;
  const auto& blocked = file.run.blocked;
  for (const auto& [id, why] : blocked) evidence[id].blocked[why].insert(rank);
  if (!file.summary) {
    for (const auto& id : file.run.checks) {
      if (blocked.count(id) == 0) evidence[id].unfinished.insert(rank);
    }
    return;
  }
  for (const auto& [id, why] : file.summary->blocked) {
    if (blocked.count(id) == 0) evidence[id].blocked[why].insert(rank);
  }
  for (const auto& id : file.summary->passed) evidence[id].ran.insert(rank);
  for (const auto& id : file.summary->failed) evidence[id].failed.insert(rank);
  for (const auto& id : file.run.checks) {
    if (blocked.count(id) == 0 && file.summary->blocked.count(id) == 0) {
      evidence[id].ran.insert(rank);
    }
  }
}

Evidence merged_evidence(const Coverage& told) {
  const RankSet ranks(told.ranks.begin(), told.ranks.end());
  if (told.state == CoverageState::kBlocked) return {.blocked = {{told.why, ranks}}};
  return {.ran = ranks};
}

void add_finding(EvidenceById& evidence, const Finding& finding) {
  auto& own = evidence[finding.id];
  if (finding.suppressed) {
    ++own.suppressed;
    own.ran.insert(finding.rank);
    own.failed.clear();
    return;
  }
  own.failed.insert(finding.rank);
  own.failed.insert(finding.ranks.begin(), finding.ranks.end());
}

Coverage blocked_coverage(const Evidence& evidence) {
  RankSet all;
  std::string why;
  for (const auto& [reason, ranks] : evidence.blocked) {
    all.insert(ranks.begin(), ranks.end());
    if (!why.empty()) why += "; ";
    why += reason;
    if (evidence.blocked.size() > 1) why += fmt::format(" ({})", rank_words(as_list(ranks)));
  }
  return {.state = CoverageState::kBlocked, .why = std::move(why), .ranks = as_list(all)};
}

Coverage judge(const Evidence& evidence) {
  if (!evidence.failed.empty()) {
    return {.state = CoverageState::kFailed, .why = {}, .ranks = as_list(evidence.failed)};
  }
  if (!evidence.blocked.empty()) return blocked_coverage(evidence);
  RankSet all = evidence.ran;
  all.insert(evidence.unfinished.begin(), evidence.unfinished.end());
  std::string why;
  if (!evidence.unfinished.empty()) {
    why = fmt::format("{} ended without a summary: judged up to the last line",
                      rank_words(as_list(evidence.unfinished)));
  }
  if (evidence.suppressed > 0) {
    why += fmt::format("{}{} suppressed", why.empty() ? "" : "; ", evidence.suppressed);
  }
  return {.state = CoverageState::kPassed, .why = std::move(why), .ranks = as_list(all)};
}

}  // namespace

std::map<std::string, Coverage> coverage_of(const std::vector<RankFile>& files,
                                            const Findings& findings,
                                            const std::map<std::string, Coverage>& at_merge) {
  EvidenceById evidence;
  for (const auto& file : files) add_file(evidence, file);
  for (const auto& [id, told] : at_merge) evidence[id] = merged_evidence(told);
  // Suppressed ones first: they clear what a summary says, and a live finding adds it again.
  for (const bool suppressed : {true, false}) {
    for (const auto& finding : findings) {
      if (finding.suppressed == suppressed) add_finding(evidence, finding);
    }
  }
  std::map<std::string, Coverage> coverage;
  for (const auto& [id, own] : evidence) coverage[id] = judge(own);
  return coverage;
}

}  // namespace ddpscope
