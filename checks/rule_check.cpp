#include "checks/rule_check.h"

#include <utility>

#include "checks/site_text.h"
#include "checks/thrown_in.h"
#include "model/fact_keys.h"

namespace ddpscope {

void RuleCheck::on_error(const ErrorEvent& event, const RunState& state, Findings&) {
  if (event.message.find(words_) == std::string::npos) return;
  Finding finding;
  finding.severity = Severity::kError;
  finding.phase = Phase::kForward;
  finding.step = event.at.step;
  finding.op = thrown_in(event, state).op;
  if (state.place_of(event.module) != nullptr) place_in(event.module, state, finding);
  const std::string line = add_site("changed", event.stack, state, finding);
  finding.facts = {{fact::kWriterSite, line}};
  unseen_ = std::move(finding);
}

void RuleCheck::decide(Severity severity, Findings& findings) {
  std::optional<Finding> finding = std::exchange(unseen_, std::nullopt);
  if (!finding.has_value() || severity != Severity::kError) return;
  describe_unseen(*finding);
  findings.push_back(*std::move(finding));
}

}  // namespace ddpscope
