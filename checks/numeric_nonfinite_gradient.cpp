#include <fmt/format.h>

#include <memory>
#include <set>

#include "checks/finding_text.h"
#include "checks/nonfinite_check.h"
#include "checks/nonfinite_origin_text.h"
#include "checks/nonfinite_text.h"
#include "checks/rank_sides.h"
#include "checks/spoilt_text.h"
#include "checks/spread_nonfinite.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// numeric-nonfinite-gradient; docs/checks/numeric-nonfinite-gradient.md
class NumericNonfiniteGradient final : public NonfiniteCheck {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      for (const NonfiniteOrigin& origin : cohort.nonfinite) {
        if (cohort.averages) findings.push_back(describe_origin(origin, cohort));
      }
    }
  }

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
    if (const GradientsSpoiltEvent* spoilt = trail().spoilt()) {
      say_spoilt(*spoilt, gradient->values, trail().averaged(), state, findings.back());
    } else if (trail().averaged()) {
      say_averaged(findings.back());
    }
    if (cleared) say_cleared(findings.back());
    if (trail().spoilt() == nullptr && !gradient->by_hook) say_growth(trail(), findings.back());
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
    if (gradient.by_hook) {
      finding.why += ", and what backward returned was finite: the program's own hook made it so";
    }
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
    if (gradient.by_hook) {
      finding.fixes.insert(finding.fixes.begin(),
                           {"look at what register_hook() of this tensor divides by", kLikely});
    }
    finding.facts = {{fact::kFirstParameter, tensor_path(first)}, {fact::kParametersCount, count}};
    add_counts(gradient.values, finding);
    add_batch(gradient.at, state, finding);
    return finding;
  }

  static Finding describe_origin(const NonfiniteOrigin& origin, const Cohort& cohort) {
    Finding finding = finding_on(origin.ranks, origin.step);
    finding.severity = Severity::kError;
    finding.phase = Phase::kBackward;
    set_place(finding, origin.model, origin.path);
    finding.what = origin.what;
    finding.why = "averaging spreads it to every rank" + origin_words(origin.ranks, cohort);
    finding.fixes = {
        {"skip the step on all ranks by a reduced flag (maximum), not on one rank", kLikely},
        {fmt::format("look at the batch that {} read in this step", rank_words(origin.ranks)),
         kNeedsDecision}};
    // Else it would be one with what the rank that says it finds of the same parameter later.
    finding.facts = {{fact::kCause, std::string("before_averaging")},
                     {fact::kFirstParameter, origin.path},
                     {fact::kNanCount, origin.nan_count},
                     {fact::kInfCount, origin.inf_count},
                     {fact::kOriginRanks, as_fact(origin.ranks)}};
    return finding;
  }

  static void say_averaged(Finding& finding) {
    constexpr std::string_view kOfRank = " when it reached this rank's parameter";
    const auto at = finding.what.find(kOfRank);
    if (at == std::string::npos) return;
    finding.what.replace(at, kOfRank.size(), " after the average over the ranks");
    finding.why += "; it was not looked at before: any rank may have made it so";
    finding.facts.push_back({fact::kCause, std::string(kAfterAveraging)});
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
