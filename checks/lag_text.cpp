#include "checks/lag_text.h"

#include <fmt/format.h>

#include "checks/call_text.h"
#include "checks/finding_text.h"
#include "checks/site_text.h"
#include "model/rank_words.h"

namespace ddpscope {

std::string lag_words(const Lag& lag, std::int64_t since) {
  const std::string late = rank_words(lag.lagging);
  const std::string waits =
      rank_words(lag.waiting) + (lag.waiting.size() == 1 ? " waits" : " wait");
  if (lag.behind > 0) {
    return fmt::format("{} {} {} backwards behind: {} in that of backward {}", late,
                       lag.lagging.size() == 1 ? "is" : "are", lag.behind, waits, lag.waits_in);
  }
  if (lag.issued != nullptr) {
    return fmt::format("{} issued {} after backward {}, {} in {} of backward {}", late,
                       call_words(lag.issued->call, false), lag.ended_after, waits,
                       call_words(lag.awaited->call, false), lag.waits_in);
  }
  if (lag.skipped == 0) {
    return fmt::format("{} ended the epoch after backward {}, {} in that of backward {}", late,
                       lag.ended_after, waits, lag.waits_in);
  }
  return fmt::format("{} skipped the collectives of {} since step {}; {} in those of backward {}",
                     late, lag.skipped == 1 ? "a batch" : counted(lag.skipped, "batch"), since,
                     waits, lag.waits_in);
}

void tell_other_call(const Lag& lag, Finding& finding) {
  finding.why =
      "it has fewer batches than the others, or left the step for an evaluation or a barrier that "
      "they do not take part in";
  finding.evidence_status = EvidenceStatus::kSupported;
  for (Fix& fix : finding.fixes) fix.applicability = Applicability::kLikely;
  finding.fixes.insert(
      finding.fixes.begin(),
      {"evaluate on all ranks, or without the group that averages", Applicability::kLikely});
  auto [awaited, issued] = told_apart(lag.awaited->call.site, lag.issued->call.site);
  const std::string own = line_of(issued);
  const std::string other = line_of(awaited);
  if (!own.empty() && !other.empty()) {
    finding.why += fmt::format("; {} called at {}, {} at {}", rank_words(lag.lagging), own,
                               rank_words(lag.waiting), other);
  }
  for (Site* site : {&awaited, &issued}) {
    if (!site->frames.empty()) finding.sites.push_back(std::move(*site));
  }
}

}  // namespace ddpscope
