#include <fmt/format.h>

#include <memory>

#include "checks/finding_text.h"
#include "checks/rule_check.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// autograd-leaf-inplace; docs/checks/autograd-leaf-inplace.md
class AutogradLeafInplace final : public RuleCheck {
 public:
  AutogradLeafInplace()
      : RuleCheck("leaf Variable that requires grad is being used in an in-place") {}

  void on_failed_write(const FailedWriteEvent& event, const RunState& state,
                       Findings& findings) override {
    write_was_seen();
    const bool part = event.is_view && event.origin == ViewOrigin::kSingle;
    if (!event.of_leaf || !event.grad_mode || (event.is_view && !part)) return;
    const TensorInfo& leaf = event.is_view ? event.base : event.tensor;
    Finding finding;
    finding.severity = Severity::kError;
    finding.phase = Phase::kForward;
    finding.step = event.at.step;
    if (const TensorState* owner = owner_of(leaf, state)) {
      place_at(*owner, state, finding);
    } else if (state.place_of(event.by.module) != nullptr) {
      place_at(event.by, state, finding);
    }
    finding.op = event.op;
    const std::string line = add_site("changed", event.by.stack, state, finding);
    finding.what = fmt::format("trainable leaf {} is changed in place with grad mode on{}",
                               shape_text(leaf.shape), part ? ", through a view of it" : "");
    finding.why = fmt::format(
        "{}{} runs outside a guard; {}autograd cannot record a leaf's change", event.op,
        where_text(event.by, line, state),
        event.after_empty_guard ? "one without a name has just ended at its own semicolon; " : "");
    finding.fixes = fixes();
    finding.facts = {{fact::kTensor, std::to_string(leaf.id)},
                     {fact::kShape, shape_text(leaf.shape)},
                     {fact::kWriterSite, line},
                     {fact::kThroughView, part}};
    if (event.after_empty_guard) {
      finding.confidence = Confidence::kMedium;  // by the time between its begin and its end
      finding.facts.push_back({fact::kCause, "unnamed_guard"});
    }
    findings.push_back(std::move(finding));
  }

 private:
  void describe_unseen(Finding& finding) const override {
    finding.what = "a trainable leaf is changed in place with grad mode on";
    finding.why = fmt::format("{} runs outside a guard; autograd cannot record a leaf's change",
                              finding.op.empty() ? "what writes it" : finding.op);
    finding.fixes = fixes();
  }

  static std::vector<Fix> fixes() {
    return {
        {"torch::NoGradGuard guard; as a named variable around it: without a name it ends at once",
         kSafe},
        {"torch::nn::init::... for initial values", kLikely},
        {"compute a new tensor if the value is meant to have history", kNeedsDecision}};
  }
};
}  // namespace

std::unique_ptr<Check> make_autograd_leaf_inplace() {
  return std::make_unique<AutogradLeafInplace>();
}

}  // namespace ddpscope
