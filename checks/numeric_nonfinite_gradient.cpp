#include <fmt/format.h>

#include <memory>
#include <set>

#include "checks/finding_text.h"
#include "checks/nonfinite_check.h"
#include "checks/nonfinite_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// numeric-nonfinite-gradient; docs/checks/numeric-nonfinite-gradient.md
class NumericNonfiniteGradient final : public NonfiniteCheck {
 private:
  void judge_backward(Origin origin, const Stamp&, const RunState&, Findings&) override {
    if (waiting().empty()) is_new_ = origin != Origin::kEarlier;
  }

  void judge_step(bool cleared, const RunState& state, Findings& findings) override {
    if (!is_new_) return;
    const TensorState* first = nullptr;
    const NonfiniteGradientEvent* gradient = nullptr;
    std::set<TensorId> parameters;
    for (const NonfiniteGradientEvent& event : waiting()) {
      const TensorState* tensor = state.tensor(event.tensor);
      if (tensor == nullptr || !state.eligible(*tensor)) continue;
      parameters.insert(event.tensor);
      if (first != nullptr) continue;
      first = tensor;
      gradient = &event;
    }
    if (first == nullptr) return;
    findings.push_back(describe(*first, *gradient, parameters.size(), state));
    if (cleared) say_cleared(findings.back());
    findings.back().facts.push_back({fact::kSkipped, cleared});
  }

  static Finding describe(const TensorState& first, const NonfiniteGradientEvent& gradient,
                          std::size_t parameters, const RunState& state) {
    Finding finding = about(collapse(state, {&first}).front());
    const auto count = static_cast<std::int64_t>(parameters);
    finding.severity = Severity::kError;
    finding.phase = Phase::kBackward;
    finding.step = gradient.at.step;
    const bool averages = state.world_size() > 1;
    finding.what = fmt::format("the gradient was not finite{}: {}",
                               averages ? " when it reached this rank's parameter" : "",
                               elements_text(gradient.values, "elements"));
    finding.why = count == 1 ? "it is the only parameter with such a gradient in this step"
                             : fmt::format(
                                   "first of {} parameters with such a gradient in this "
                                   "step",
                                   count);
    finding.why += averages
                       ? "; averaging spreads it to every rank, and the optimizer stepped with it"
                       : "; the optimizer stepped with it";
    finding.fixes = {
        {averages ? "skip the step on all ranks by a reduced flag (maximum), not on one rank"
                  : "skip the step where a gradient is not finite",
         kLikely},
        {"look at the batch of this step", kNeedsDecision},
        {"lower the learning rate, where no numeric-nonfinite-forward or -backward names an "
         "operator",
         kNeedsDecision}};
    finding.facts = {{fact::kFirstParameter, tensor_path(first)}, {fact::kParametersCount, count}};
    add_counts(gradient.values, finding);
    add_batch(gradient.at, state, finding);
    return finding;
  }

  static void say_cleared(Finding& finding) {
    finding.severity = Severity::kNote;
    finding.why.resize(finding.why.find(';'));
    finding.why += "; the program cleared or repaired it before the optimizer stepped";
  }

  bool is_new_ = true;  ///< no earlier step had spoilt the parameters
};
}  // namespace

std::unique_ptr<Check> make_numeric_nonfinite_gradient() {
  return std::make_unique<NumericNonfiniteGradient>();
}

}  // namespace ddpscope
