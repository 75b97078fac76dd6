#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"
#include "model/node_name.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// autograd-double-backward; docs/checks/autograd-double-backward.md
class AutogradDoubleBackward final : public Check {
 public:
  void on_graph_freed(const GraphFreedEvent& event, const RunState& state,
                      Findings& findings) override {
    Finding finding;
    finding.severity = Severity::kError;
    finding.step = event.at.step;
    place_at(event.shared_made.value_or(event.second), state, finding);
    finding.op = op_of_node(event.shared.empty() ? event.node : event.shared);
    const StackId first_stack = event.first.has_value() ? event.first->stack : 0;
    const std::string first = add_site("called", first_stack, state, finding);
    const std::string second = add_site("called", event.second.stack, state, finding);
    const bool same_line = first.empty() || first == second;
    const bool same_cycle = event.first.has_value() && (event.first->cycle == event.second.cycle ||
                                                        (!same_line && is_first_cycle(state)));
    const bool same_step = same_cycle || is_same_step(event);
    finding.what = what_text(event, same_cycle);
    finding.why = why_text(event, first, second);
    if (!event.established) finding.evidence_status = EvidenceStatus::kSupported;
    finding.confidence = event.first.has_value() ? Confidence::kHigh : Confidence::kMedium;
    finding.fixes = {
        {"detach() the shared tensor for the loss that must not reach what made it", kLikely},
        {"add the losses and call backward() once", kLikely},
        {"run the forward again", kSafe},
        {"retain_graph = true on the first of the two, at the price of its saved memory until the "
         "second",
         kNeedsDecision}};
    if (event.first.has_value() && !same_cycle) {
      finding.fixes.insert(finding.fixes.begin(),
                           {"detach() at the step boundary what one step hands to the next, such "
                            "as a hidden state",
                            kLikely});
    }
    finding.facts = {{fact::kSharedNodesCount, event.shared_nodes},
                     {fact::kSharedOp, op_of_node(event.shared)},
                     {fact::kFirstStep, event.first.has_value() ? event.first->step : 0},
                     {fact::kFirstSite, first},
                     {fact::kSecondSite, second},
                     {fact::kSameStep, same_step}};
    findings.push_back(std::move(finding));
  }

 private:
  static bool is_same_step(const GraphFreedEvent& event) {
    return event.first.has_value() && event.first->step == event.second.step;
  }

  /// Of a cycle that has not ended yet nothing tells which optimizers belong to it: one that waits
  /// for its first step does.
  static bool is_first_cycle(const RunState& state) {
    return std::ranges::any_of(state.optimizers(), [](const auto& entry) {
      return entry.second.creation_seen && entry.second.steps == 0;
    });
  }

  static std::string what_text(const GraphFreedEvent& event, bool same_cycle) {
    if (!event.first.has_value()) {
      return fmt::format("backward asks for tensors of {} that an earlier backward freed",
                         op_of_node(event.node));
    }
    const std::string when = is_same_step(event) ? "in the same step"
                             : same_cycle        ? "in the same cycle"
                                                 : fmt::format("in step {}", event.first->step);
    return fmt::format("backward needs {} that an earlier backward freed {}",
                       counted(event.shared_nodes, "node"), when);
  }

  static std::string why_text(const GraphFreedEvent& event, const std::string& first,
                              const std::string& second) {
    if (!event.first.has_value() && event.rested) {
      return "the first pass was not recorded: ddpscope watched some steps only, to keep to its "
             "setting overhead";
    }
    if (!event.first.has_value()) return "the first pass is not among the last 8 backward calls";
    std::string text = "the graph is freed as the first pass goes through it";
    if (!first.empty()) text += fmt::format("; first pass {}", first);
    if (!second.empty()) text += fmt::format("; second {}", second);
    return text + fmt::format("; shared from {} on", op_of_node(event.shared));
  }
};
}  // namespace

std::unique_ptr<Check> make_autograd_double_backward() {
  return std::make_unique<AutogradDoubleBackward>();
}

}  // namespace ddpscope
