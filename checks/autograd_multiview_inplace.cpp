#include <fmt/format.h>

#include <memory>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
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
class AutogradMultiviewInplace final : public Check {
 public:
  void on_failed_write(const FailedWriteEvent& event, const RunState& state,
                       Findings& findings) override {
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
  static std::vector<Fix> fixes_for(const FailedWriteEvent& event) {
    const std::string name = event.op.substr(event.op.find("::") + 2);
    const std::string plain = name.substr(0, name.size() - (name.ends_with('_') ? 1 : 0));
    const Fix out_of_place = {fmt::format("out of place: v = v.{}(...)", plain), kSafe};
    const Fix copy = {"clone() the view directly before the write", kSafe};
    if (event.origin == ViewOrigin::kGradModeOff) {
      return {{"make the view and write to it on the same side of torch::NoGradGuard", kLikely},
              out_of_place,
              copy};
    }
    if (event.origin == ViewOrigin::kCustomFunction) return {out_of_place, copy};
    return {out_of_place,
            copy,
            {"take the part with narrow or slice: a single view may be written", kLikely}};
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
    return fmt::format("view {} of {} made by {} is written in place, {}", event.output_index,
                       event.outputs, creator, shape);
  }
};
}  // namespace

std::unique_ptr<Check> make_autograd_multiview_inplace() {
  return std::make_unique<AutogradMultiviewInplace>();
}

}  // namespace ddpscope
