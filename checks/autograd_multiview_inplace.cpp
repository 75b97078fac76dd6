#include <fmt/format.h>

#include <memory>
#include <vector>

#include "checks/finding_text.h"
#include "checks/rule_check.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "checks/stale_text.h"
#include "model/fact_keys.h"
#include "model/node_name.h"

namespace ddpscope {
namespace {
using enum Applicability;

std::string kind_of(ViewOrigin origin) {
  switch (origin) {
    case ViewOrigin::kMultiOutput:
      return "multi_output";
    case ViewOrigin::kCustomFunction:
      return "custom_function";
    case ViewOrigin::kGradModeOff:
      return "grad_mode_off";
    default:
      return "";
  }
}

/// autograd-multiview-inplace; docs/checks/autograd-multiview-inplace.md
class AutogradMultiviewInplace final : public RuleCheck {
 public:
  AutogradMultiviewInplace() : RuleCheck("output of a function that returns multiple views") {}

  void on_failed_write(const FailedWriteEvent& event, const RunState& state,
                       Findings& findings) override {
    write_was_seen();
    const std::string kind = kind_of(event.origin);
    if (kind.empty()) return;
    Finding finding;
    finding.severity = Severity::kError;
    finding.phase = Phase::kForward;
    finding.step = event.at.step;
    place_at(event.by, state, finding);
    finding.op = event.op;
    // With grad mode off no node is made: what a surveyed operator told is all there is.
    const OpTrace::Record* made = state.trace().record_of(event.tensor.id);
    const StackId known = made != nullptr ? made->stack : 0;
    const StackId created = event.created.has_value() ? event.created->stack : known;
    const std::string creator_line = add_site("created", created, state, finding);
    const std::string line = add_site("changed", event.by.stack, state, finding);
    const bool has_node = !event.creator.empty();
    const std::string creator = has_node || made == nullptr ? op_of_node(event.creator) : made->op;
    finding.what = what_text(event, creator);
    finding.why =
        sites_text(creator_line, line) + "autograd cannot rewrite the history of such views";
    finding.fixes = fixes_for(event);
    finding.facts = {{fact::kCreatorOp, creator}, {fact::kCreatorSite, creator_line}};
    if (has_node) {
      finding.facts.push_back({fact::kOutputIndex, event.output_index});
      finding.facts.push_back({fact::kOutputsCount, event.outputs});
    }
    finding.facts.push_back({fact::kWriterSite, line});
    finding.facts.push_back({fact::kCreationKind, kind});
    findings.push_back(std::move(finding));
  }

 private:
  void describe_unseen(Finding& finding) const override {
    finding.what = "one of several views that an operator made is written in place";
    finding.why = "autograd cannot rewrite the history of such views";
    FailedWriteEvent write;
    write.op = finding.op;
    write.origin = ViewOrigin::kMultiOutput;
    finding.fixes = fixes_for(write);
  }

  static std::vector<Fix> fixes_for(const FailedWriteEvent& event) {
    std::vector<Fix> fixes;
    if (event.origin == ViewOrigin::kGradModeOff) {
      fixes = {{"make the view and write to it on the same side of torch::NoGradGuard", kLikely}};
    }
    if (const std::string instead = out_of_place(event.op, 'v'); !instead.empty()) {
      fixes.push_back({instead, kSafe});
    }
    fixes.push_back({"clone() the view directly before the write", kSafe});
    if (event.origin == ViewOrigin::kMultiOutput) {
      fixes.push_back(
          {event.of_part
               ? "take it from the whole tensor with narrow, slice or select: a single view may be "
                 "written"
               : "take the part with narrow or slice: a single view may be written",
           kLikely});
    }
    return fixes;
  }

  static std::string sites_text(const std::string& made, const std::string& written) {
    if (made.empty() && written.empty()) return "";
    if (made.empty()) return fmt::format("written at {}; ", written);
    if (written.empty()) return fmt::format("made at {}; ", made);
    return fmt::format("made at {}, written at {}; ", made, written);
  }
  static std::string what_text(const FailedWriteEvent& event, const std::string& creator) {
    const std::string shape = shape_text(event.tensor.shape);
    if (event.origin == ViewOrigin::kGradModeOff) {
      return fmt::format("a view {} that was made with grad mode off is written in place", shape);
    }
    if (event.origin == ViewOrigin::kCustomFunction) {
      return fmt::format("a view {} that the custom function {} returned is written in place",
                         shape, creator);
    }
    return fmt::format("{}view {} of {} made by {} is written in place, {}",
                       event.of_part ? "a part of " : "", event.output_index, event.outputs,
                       creator, shape);
  }
};
}  // namespace

std::unique_ptr<Check> make_autograd_multiview_inplace() {
  return std::make_unique<AutogradMultiviewInplace>();
}

}  // namespace ddpscope
