#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "checks/finding_text.h"
#include "checks/nonfinite_check.h"
#include "checks/nonfinite_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// numeric-nonfinite-forward; docs/checks/numeric-nonfinite-forward.md
class NumericNonfiniteForward final : public NonfiniteCheck {
 public:
  // Arrives when its backward has ended, and before the optimizer steps.
  void on_nonfinite_output(const NonfiniteOutputEvent& event, const RunState& state,
                           Findings& findings) override {
    const std::int64_t step = trail().ended().step;
    if (step == reported_step_ || trail().is_old(event.source)) return;
    // No gradient came of the number, as of a loss times its scale.
    const bool is_number = std::max(event.values.elements, event.output.elements) <= 1;
    if (is_number && is_overflown_product(event) && waiting().empty()) return;
    reported_step_ = step;
    Finding finding = event.source == 0 ? by_operator(event, state) : by_source(event, state);
    finding.severity = Severity::kError;
    finding.phase = Phase::kForward;
    finding.step = step;
    if (!event.output.dtype.empty()) {
      finding.facts.push_back({fact::kDtype, event.output.dtype});
    }
    if (event.inputs_known) finding.facts.push_back({fact::kInputAbsmax, event.inputs.absmax});
    finding.facts.push_back({fact::kVictimsCount, event.victims});
    add_batch(event.at, state, finding);
    held_ = std::move(finding);
    if (!may_be_skipped(event, state)) judge_step(/*cleared=*/false, state, findings);
  }

 private:
  void forget() override {
    reported_step_ = -1;
    held_.reset();
  }
  static bool is_overflown_product(const NonfiniteOutputEvent& event) {
    const bool is_product = event.op == "aten::mul" || event.op == "aten::div";
    return is_product && event.source == 0 && event.values.nan_count == 0;
  }
  // It may be the finite loss times its scale: a scaler lowers that and skips the step.
  bool may_be_skipped(const NonfiniteOutputEvent& event, const RunState& state) const {
    const bool is_scaled = event.values.elements == 0 || is_overflown_product(event);
    return event.source == 0 && is_scaled && !waiting().empty() && !state.optimizers().empty();
  }
  void judge_step(bool cleared, const RunState&, Findings& findings) override {
    if (held_.has_value() && !cleared) findings.push_back(std::move(*held_));
    held_.reset();
  }
  void judge_skip(const RunState&, Findings&) override { held_.reset(); }

  std::string why(const NonfiniteOutputEvent& event, const RunState& state,
                  Finding& finding) const {
    std::string text = counted(event.victims, "non-finite result") + " after it in this step";
    if (event.victims == 0) text = "no other non-finite result was kept in this step";
    const LossEvent* loss = trail().loss();
    if (loss != nullptr) text += "; the loss is " + number_text(loss->value);
    const std::string ran = ran_text(event.place, event.made, state, finding);
    if (!ran.empty()) text += fmt::format("; {} ran{}", event.op, ran);
    return text;
  }

  Finding by_operator(const NonfiniteOutputEvent& event, const RunState& state) const {
    Finding finding;
    place_between(event.place, state, finding);
    finding.op = event.op;
    const bool is_counted = event.values.elements > 0;
    const bool is_exact = is_counted && event.candidates.empty() && !event.lost_operand &&
                          (event.was_zero || (event.inputs_known && event.inputs.is_finite()));
    const bool is_sent = is_of_other_ranks(event);
    if (!is_exact && !is_sent) {
      const bool is_known = event.candidates.empty();
      finding.confidence = is_known ? Confidence::kMedium : Confidence::kLow;
      finding.evidence_status = is_known ? EvidenceStatus::kSupported : EvidenceStatus::kHypothesis;
    }
    finding.what = fmt::format("{}, {}",
                               is_counted ? elements_text(event.values, "output elements")
                                          : "NaN or Inf began here, in a result that is gone",
                               inputs_text(event));
    finding.why = why(event, state, finding);
    if (!event.candidates.empty()) {
      finding.why += fmt::format("; what {} after it read is gone, one of them may have been first",
                                 joined(event.candidates));
    }
    add_operator_fixes(event, trail().risky_input_of(event.output.id), finding);
    add_cause(is_sent ? "other_rank" : "operator", event.values, finding);
    return finding;
  }

  /// A parameter, a buffer, or a tensor that is registered nowhere: the batch.
  Finding by_source(const NonfiniteOutputEvent& event, const RunState& state) const {
    const TensorState* source = state.tensor(event.source);
    const bool registered = source != nullptr && !source->registrations.empty();
    const bool is_parameter = registered || (source != nullptr && source->info.requires_grad);
    Finding finding;
    place_between(event.place, state, finding);
    finding.op = event.op;
    std::string what = "the batch";
    finding.fixes = {{"look at the batch of this step: drop or repair the sample", kNeedsDecision},
                     {"test what the reader returns: `torch::isfinite(x).all()`", kLikely}};
    if (registered) {
      finding.model = state.model_of(*source)->label;
      finding.module_path = source->registrations.front().module_path;
      finding.subject = source->registrations.front().name;
    } else if (is_parameter) {
      finding.subject = shape_text(source->info.shape);
    }
    if (is_parameter) {
      what = (source->is_buffer ? "the buffer " : "the parameter ") + finding.subject;
      finding.fixes = {{"look at what wrote it last: its initialisation, a load or the program",
                        kNeedsDecision}};
    }
    finding.what = fmt::format("{} was not finite when forward read it: {}", what,
                               elements_text(event.source_values, "elements"));
    finding.why = why(event, state, finding);
    add_cause(is_parameter ? "parameter" : "batch", event.source_values, finding);
    return finding;
  }

  std::int64_t reported_step_ = -1;
  std::optional<Finding> held_;  // until its step is made or skipped
};
}  // namespace

std::unique_ptr<Check> make_numeric_nonfinite_forward() {
  return std::make_unique<NumericNonfiniteForward>();
}

}  // namespace ddpscope
