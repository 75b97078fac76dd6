#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "checks/nonfinite_check.h"
#include "checks/nonfinite_node_text.h"
#include "checks/nonfinite_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"
#include "model/node_name.h"

namespace ddpscope {
namespace {
/// numeric-nonfinite-backward; docs/checks/numeric-nonfinite-backward.md
class NumericNonfiniteBackward final : public NonfiniteCheck {
 public:
  void on_exit(const ExitEvent&, const RunState&, Findings& findings) override {
    if (habit().may_go_on()) return tell_handled(kLeftOut, findings);
    if (is_nan_) findings.push_back(std::move(*held_));
  }

 private:
  static constexpr char kLeftOut[] = "left out the step";

  // What the program does with it decides how severe it is. Inf may be what a loss scaler waits
  // for, and a leaf alone tells no node: both count only where the optimizer steps with them.
  void judge_backward(Origin origin, const Stamp& at, const RunState& state,
                      Findings& findings) override {
    if (origin != Origin::kBackward) return;
    const NonfiniteNodeEvent* node = trail().node();
    if (node != nullptr && node->returned.elements == 0) {  // anomaly mode throws: no step follows
      return findings.push_back(by_node(*node, at, state));
    }
    const bool is_nan = node != nullptr && node->returned.inf_count == 0;
    if (held_.has_value() && (is_nan_ || !is_nan)) return;
    if (node == nullptr && trail().gradients().front().by_hook) return;
    held_ = node != nullptr ? by_node(*node, at, state) : by_leaf(at, state);
    is_nan_ = is_nan;
  }

  void judge_step(bool cleared, const RunState&, Findings& findings) override {
    if (cleared) return tell_handled("cleared or repaired the gradients before the step", findings);
    if (held_.has_value()) findings.push_back(std::move(*held_));
    forget();
  }
  void judge_skip(const RunState&, Findings& findings) override {
    if (is_nan_) habit().skip();
    tell_handled(kLeftOut, findings);
  }
  void judge_recovery(Findings&) override { forget(); }
  void tell_handled(const char* how, Findings& findings) {
    if (is_nan_) {
      held_->severity = Severity::kNote;
      held_->why += fmt::format("; the program {}", how);
      findings.push_back(std::move(*held_));
    }
    forget();
  }

  void forget() override {
    held_.reset();
    is_nan_ = false;
  }

  Finding by_node(const NonfiniteNodeEvent& event, const Stamp& at, const RunState& state) const {
    NonfiniteNodeEvent node = event;
    if (node.op.empty()) node.op = op_of_node(node.node);
    const RiskyInputEvent* risky = trail().risky_input_of(node.made);
    Finding finding = error_in_backward(at);
    place_between(node.place, state, finding);
    finding.op = node.op == kSyncBatchNorm ? node.op : node.node;
    finding.what = turns_text(node);
    finding.why = slope_text(node, risky, state);
    finding.why +=
        fmt::format("; {} ran", node.op) + ran_text(node.place, node.made_by, state, finding);
    finding.fixes = slope_fixes(node);
    finding.facts = {{fact::kNode, node.node}, {fact::kForwardOp, node.op}};
    add_counts(node.returned, finding);
    if (node.incoming_absmax.has_value()) {
      finding.facts.push_back({fact::kIncomingAbsmax, *node.incoming_absmax});
    }
    if (risky != nullptr || node.saved_known) {
      finding.facts.push_back(
          {fact::kForwardInputMin, risky != nullptr ? risky->input_min : node.saved_min});
    }
    finding.facts.push_back({fact::kConfirmedStep, at.step});
    return finding;
  }

  Finding by_leaf(const Stamp& at, const RunState& state) const {
    const NonfiniteGradientEvent& gradient = trail().gradients().front();
    const TensorState* leaf = state.tensor(gradient.tensor);
    const bool registered = leaf != nullptr && !leaf->registrations.empty();
    Finding finding = error_in_backward(at);
    finding.confidence = Confidence::kMedium;
    finding.evidence_status = EvidenceStatus::kSupported;
    place_in(0, state, finding);
    std::string name = "an unregistered leaf";
    if (registered) {
      finding.model = state.model_of(*leaf)->label;
      finding.module_path = leaf->registrations.front().module_path;
      name = trail().rested() ? tensor_path(*leaf) : leaf->registrations.front().name;
    }
    finding.what =
        fmt::format("gradient turns {} at or behind {}: {}; the loss is finite",
                    kind_of(gradient.values), name, elements_text(gradient.values, "elements"));
    finding.why =
        "it is the first leaf of this step whose gradient is not finite; no node could be looked "
        "at, as on other devices and in other threads";
    if (trail().rested()) place_in_rest(gradient.tensor, state, finding);
    finding.fixes = slope_fixes({});
    if (leaf != nullptr && leaf->info.dtype == "float16") {
      finding.fixes.insert(
          finding.fixes.begin(),
          {"run it in float32 or bfloat16: float16 ends at 65504", Applicability::kLikely});
    }
    add_counts(gradient.values, finding);
    return finding;
  }

  // Between the first leaf that was not finite and the last that was.
  void place_in_rest(TensorId first, const RunState& state, Finding& finding) const {
    const MadeIn between{.leaf_before = first, .leaf_after = trail().last_finite()};
    const TensorState* finite = state.tensor(between.leaf_after);
    finding.module_path.clear();
    place_between(between, state, finding);
    finding.why = "passes over values rested in this step: no node was looked at, nor any clip";
    if (finite != nullptr && !finite->registrations.empty()) {
      finding.why =
          fmt::format("that of {}, which came before it, is finite; ", tensor_path(*finite)) +
          finding.why;
    }
  }

  std::optional<Finding> held_;
  bool is_nan_ = false;  ///< there is one, of a node that made NaN and no Inf
};
}  // namespace

std::unique_ptr<Check> make_numeric_nonfinite_backward() {
  return std::make_unique<NumericNonfiniteBackward>();
}

}  // namespace ddpscope
