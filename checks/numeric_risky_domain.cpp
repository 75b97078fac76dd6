#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "checks/loss_ops.h"
#include "checks/nonfinite_check.h"
#include "checks/nonfinite_text.h"
#include "checks/risky_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr int kRiskySteps = 2;

/// numeric-risky-domain; docs/checks/numeric-risky-domain.md
class NumericRiskyDomain final : public NonfiniteCheck {
 public:
  void on_risky_input(const RiskyInputEvent& event, const RunState& state,
                      Findings& findings) override {
    if (!is_at_edge(event)) return;
    NonfiniteCheck::on_risky_input(event, state, findings);
    if (!waiting_.empty() && waiting_.front().at.step != event.at.step) waiting_.clear();
    waiting_.push_back(event);
  }

  void on_backward(const BackwardEvent& event, const RunState& state, Findings& findings) override {
    NonfiniteCheck::on_backward(event, state, findings);
    if (waiting_.empty()) return;
    // No root of its step asked for it, and a later one cannot.
    if (waiting_.front().at.step != event.at.step) return waiting_.clear();
    std::vector<RiskyInputEvent> elsewhere;
    const auto of_loss = records_before(state.trace(), event.roots, kAnyDistance);
    for (RiskyInputEvent& risky : waiting_) {
      const auto* made = state.trace().record_of(risky.output);
      const bool is_known = !of_loss.empty() && made != nullptr;
      if (is_known && std::ranges::find(of_loss, made) == of_loss.end()) {
        elsewhere.push_back(std::move(risky));
      } else {
        count(risky, state, findings);
      }
    }
    waiting_ = std::move(elsewhere);  // may reach another root of this step
  }

  void on_nonfinite_output(const NonfiniteOutputEvent& event, const RunState& state,
                           Findings& findings) override {
    if (!trail().is_old(event.source)) support(event.output.id, state, findings);
  }

 private:
  struct Seen {
    std::int64_t step = 0;
    int steps = 0;
    bool told = false;
  };

  void count(const RiskyInputEvent& event, const RunState& state, Findings& findings) {
    Seen& seen = seen_[{event.module, event.op, event.rule}];
    if (seen.step == event.at.step) return;
    seen.step = event.at.step;
    if (++seen.steps == kRiskySteps) tell(event, seen, state, findings);
  }

  // What turned out not finite is told at once.
  void judge_backward(Origin origin, const Stamp&, const RunState& state,
                      Findings& findings) override {
    const NonfiniteNodeEvent* node = trail().node();
    if (origin == Origin::kBackward && node != nullptr) support(node->made, state, findings);
  }

  void support(TensorId output, const RunState& state, Findings& findings) {
    const RiskyInputEvent* event = trail().risky_input_of(output);
    if (event == nullptr) return;
    Seen& seen = seen_[{event->module, event->op, event->rule}];
    if (!tell(*event, seen, state, findings)) return;
    findings.back().evidence_status = EvidenceStatus::kSupported;
  }

  void forget() override {
    seen_.clear();
    waiting_.clear();
  }

  static bool tell(const RiskyInputEvent& event, Seen& seen, const RunState& state,
                   Findings& findings) {
    if (std::exchange(seen.told, true)) return false;
    Finding finding;
    place_in(event.module, state, finding);
    finding.severity = Severity::kWarning;
    finding.phase = Phase::kForward;
    finding.op = event.op;
    finding.step = event.at.step;
    describe_edge(event, finding);
    const FloatType* type = float_type(event.dtype);
    finding.facts = {{fact::kCause, event.rule},
                     {fact::kRule, event.rule},
                     {fact::kOffendingCount, event.offending_count},
                     {fact::kDtype, event.dtype}};
    if (event.rule == "epsilon_lost") {
      finding.facts.push_back({fact::kEpsilon, event.epsilon});
    } else {
      finding.facts.push_back({fact::kInputMin, event.input_min});
      finding.facts.push_back({fact::kInputAbsmin, event.input_absmin});
      finding.facts.push_back({fact::kInputMax, event.input_max});
    }
    if (type != nullptr) finding.facts.push_back({fact::kSmallestNormal, type->smallest_normal});
    findings.push_back(std::move(finding));
    return true;
  }

  std::map<std::tuple<ModuleId, std::string, std::string>, Seen> seen_;
  std::vector<RiskyInputEvent> waiting_;  // of one step, until a backward asks for what it made
};
}  // namespace

std::unique_ptr<Check> make_numeric_risky_domain() {
  return std::make_unique<NumericRiskyDomain>();
}

}  // namespace ddpscope
