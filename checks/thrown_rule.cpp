#include "checks/thrown_rule.h"

#include "checks/site_text.h"
#include "model/fact_keys.h"

namespace ddpscope {

void ThrownRule::see(const ErrorEvent& event, const RunState& state) {
  if (event.message.find(words_) == std::string::npos) return;
  const ThrownIn thrown = thrown_in(event, state);
  Finding finding;
  finding.severity = Severity::kError;
  finding.phase = Phase::kForward;
  finding.step = event.at.step;
  finding.op = thrown.op;
  if (state.place_of(event.module) != nullptr) place_in(event.module, state, finding);
  const std::string line = add_site("changed", event.stack, state, finding);
  finding.facts = {{fact::kWriterSite, line}};
  finding_ = std::move(finding);
}

}  // namespace ddpscope
