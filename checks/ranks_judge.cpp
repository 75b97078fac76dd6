#include "checks/ranks_judge.h"

#include <fmt/format.h>

#include "checks/cause_links.h"
#include "checks/check_table.h"
#include "model/fingerprint.h"

namespace ddpscope {
namespace {
void link(Finding& effect, const std::vector<Finding*>& causes) {
  for (Finding* cause : causes) {
    if (cause->suppressed || !explains(*cause, effect)) continue;
    effect.caused_by = cause->fingerprint;
    effect.causal_role = CausalRole::kCascade;
    effect.why = fmt::format("see {} of rank {}", cause->id, cause->rank);
    cause->causal_role = CausalRole::kInitiating;
    return;
  }
}
}  // namespace

Findings judge_ranks(const RanksEndedEvent& run, const std::set<std::string>& enabled,
                     const std::vector<Finding*>& of_ranks) {
  Findings all;
  for (const CheckRow& row : check_table()) {
    const std::string id(row.id);
    if (row.factory == nullptr || !enabled.contains(id)) continue;
    Findings findings;
    row.factory()->on_ranks_ended(run, findings);
    for (Finding& finding : findings) {
      finding.id = id;
      finding.first_step = finding.last_step = finding.step;
      if (finding.ranks.empty()) finding.ranks = {finding.rank};
      link(finding, of_ranks);
      finding.fingerprint = fingerprint_of(finding);
      all.push_back(std::move(finding));
    }
  }
  return all;
}

}  // namespace ddpscope
