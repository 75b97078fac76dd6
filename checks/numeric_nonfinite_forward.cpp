#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "checks/nonfinite_check.h"
#include "checks/nonfinite_origin_text.h"

namespace ddpscope {
namespace {
/// numeric-nonfinite-forward; docs/checks/numeric-nonfinite-forward.md
class NumericNonfiniteForward final : public NonfiniteCheck {
 public:
  // Arrives when its backward has ended, and before the optimizer steps. What the program does with
  // the step decides how severe it is.
  void on_nonfinite_output(const NonfiniteOutputEvent& event, const RunState& state,
                           Findings& findings) override {
    const std::int64_t step = trail().ended().step;
    if (step == reported_step_ || trail().is_old(event.source)) return;
    // No gradient came of the number, as of a loss times its scale.
    const bool is_number = std::max(event.values.elements, event.output.elements) <= 1;
    if (is_number && is_overflown_product(event) && waiting().empty()) return;
    tell(findings);
    reported_step_ = step;
    held_ = describe_origin(event, trail(), state);
    half_source_ = event.source_dtype == "float16" ? event.source : 0;
    explain_half(state);
    may_be_scaled_ = may_be_scaled(event, state);
    zeroed_ = false;
    // Where no gradient waits for its step, only one optimizer tells which step is meant.
    const auto optimizers = state.optimizers().size();
    if (optimizers == 0 || (waiting().empty() && optimizers > 1)) tell(findings);
  }

  void on_zero_grad(const ZeroGradEvent& event, const RunState& state,
                    Findings& findings) override {
    NonfiniteCheck::on_zero_grad(event, state, findings);
    zeroed_ = held_.has_value() && !closures().has(event.optimizer, state);
  }
  void on_backward(const BackwardEvent& event, const RunState& state, Findings& findings) override {
    const bool waits = !waiting().empty();
    NonfiniteCheck::on_backward(event, state, findings);
    if (!waits && zeroed_) judge_skip(state, findings);
  }
  void on_backward_end(const BackwardEndEvent& event, const RunState& state,
                       Findings& findings) override {
    NonfiniteCheck::on_backward_end(event, state, findings);
    // Nobody has taken its gradients for a whole step.
    if (held_.has_value() && event.at.step > held_->step + 1) tell(findings);
  }
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    explain_half(state);
    NonfiniteCheck::on_optimizer_step(event, state, findings);
    if (waiting().empty()) tell(findings);
  }
  // A program that leaves out such steps may have left out its last.
  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    explain_half(state);
    if (habit().may_go_on()) return tell_handled(kLeftOut, findings);
    if (!may_be_scaled_) tell(findings);
  }

 private:
  static constexpr char kLeftOut[] = "left out the step";

  void forget() override {
    reported_step_ = -1;
    held_.reset();
  }
  static bool is_overflown_product(const NonfiniteOutputEvent& event) {
    const bool is_product = event.op == "aten::mul" || event.op == "aten::div";
    return is_product && event.source == 0 && event.values.nan_count == 0;
  }
  // It may be the finite loss times its scale: a scaler lowers that and skips the step.
  bool may_be_scaled(const NonfiniteOutputEvent& event, const RunState& state) const {
    const bool is_scaled = event.values.elements == 0 || is_overflown_product(event);
    return event.source == 0 && is_scaled && !waiting().empty() && !state.optimizers().empty();
  }

  void judge_step(bool cleared, const RunState&, Findings& findings) override {
    if (cleared) return tell_handled("cleared or repaired the gradients before the step", findings);
    tell(findings);
  }
  void judge_skip(const RunState&, Findings& findings) override {
    if (held_.has_value() && !may_be_scaled_) habit().skip();
    tell_handled(kLeftOut, findings);
    reported_step_ = -1;  // which is not counted: the next attempt is another
  }

  void judge_recovery(Findings& findings) override {
    tell_handled("computed it again, finite, in the same step()", findings);
  }

  // The members of its optimizer may be told with the step alone.
  void explain_half(const RunState& state) {
    if (half_source_ == 0 || !held_.has_value()) return;
    if (say_lost_eps(half_source_, state, *held_)) half_source_ = 0;
  }

  void tell(Findings& findings) {
    if (held_.has_value()) findings.push_back(std::move(*held_));
    held_.reset();
  }
  void tell_handled(const char* how, Findings& findings) {
    if (held_.has_value() && !may_be_scaled_) {
      held_->severity = Severity::kNote;
      held_->why += fmt::format("; the program {}", how);
      tell(findings);
    }
    held_.reset();
  }

  std::int64_t reported_step_ = -1;
  std::optional<Finding> held_;  ///< until its step is made or skipped
  TensorId half_source_ = 0;     ///< the parameter in float16 that it names
  bool may_be_scaled_ = false;
  bool zeroed_ = false;  ///< by zero_grad(), since it is held
};
}  // namespace

std::unique_ptr<Check> make_numeric_nonfinite_forward() {
  return std::make_unique<NumericNonfiniteForward>();
}

}  // namespace ddpscope
