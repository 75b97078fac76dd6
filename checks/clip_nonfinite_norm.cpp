#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "checks/check.h"
#include "checks/clip_finder.h"
#include "checks/finding_text.h"
#include "checks/nonfinite_gradients.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using Nonfinite = std::vector<NonfiniteGradients::Found>;

/// clip-nonfinite-norm; docs/checks/clip-nonfinite-norm.md
class ClipNonfiniteNorm final : public Check {
 public:
  void on_backward(const BackwardEvent&, const RunState&, Findings&) override {
    nonfinite_.on_backward();
  }
  void on_gradient_values(const GradientValuesEvent& event, const RunState&, Findings&) override {
    nonfinite_.on_gradient_values(event);
  }
  void on_nonfinite_gradient(const NonfiniteGradientEvent& event, const RunState&,
                             Findings&) override {
    nonfinite_.on_nonfinite_gradient(event);
  }

  void on_gradient(const GradientEvent& event, const RunState&, Findings&) override {
    nonfinite_.on_gradient(event);
    if (event.before != GradientBefore::kKept) pending_.erase(event.tensor);
  }

  void on_gradients_scaled(const GradientsScaledEvent& event, const RunState& state,
                           Findings& findings) override {
    // Single gradients that the program edits are not clipped.
    if (2 * event.gradients < gradients_beside(event.first, state)) return;
    const Nonfinite before = nonfinite_.beside(event.first, state);
    const std::string kind = norm_kind(event, before);
    if (kind.empty()) return;
    Finding finding = describe(event, kind, before, state);
    if (state.optimizers().empty()) {
      findings.push_back(std::move(finding));
    } else {
      pending_[event.first] = std::move(finding);
    }
  }

  // A program that looks at the norm and leaves the step out has lost nothing.
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    std::erase_if(pending_, [&](auto& entry) {
      if (!is_step_of(event, entry.first, state)) return false;
      findings.push_back(std::move(entry.second));
      return true;
    });
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    nonfinite_.clear();
    pending_.clear();
  }

 private:
  // A program that multiplies by 0 may only clear: then no gradient was Inf.
  static std::string norm_kind(const GradientsScaledEvent& event, const Nonfinite& before) {
    if (!event.factor.has_value()) return "";
    const double norm = event.quotient.has_value() ? event.quotient->norm : 0;
    if (std::isnan(norm) || std::isnan(*event.factor)) return "nan";
    if (std::isinf(norm)) return "inf";
    return *event.factor == 0 && !before.empty() ? "inf" : "";
  }

  Finding describe(const GradientsScaledEvent& event, const std::string& kind,
                   const Nonfinite& before, const RunState& state) const {
    using enum Applicability;
    const auto bad = std::min(static_cast<std::int64_t>(before.size()), event.gradients);
    const std::string reason = cause(before, kind);
    const bool is_written = reason == "written_after_backward";
    const std::int64_t zeroed = kind == "nan" || is_written ? 0 : event.gradients - bad;
    Finding finding = about_gradients_of(event.first, state);
    finding.severity = Severity::kError;
    finding.step = event.at.step;
    finding.what = what(kind, event.gradients, bad, is_written);
    finding.why = bad < event.gradients && bad > 0 ? "only " : "";
    finding.why += why(before, kind, reason, state);
    finding.fixes = {{"test the norm and leave the step out on all ranks; clip_grad_norm_ with "
                      "error_if_nonfinite, or ddpscope's with NonFinite::kThrow, throws before it "
                      "writes",
                      kLikely},
                     {"find what made the first non-finite gradient", kNeedsDecision}};
    finding.facts = {
        {fact::kNormKind, kind},
        {fact::kFirstParameters, as_fact(NonfiniteGradients::first_names(before, state))},
        {fact::kNonfiniteCount, bad},
        {fact::kGradientsCount, event.gradients},
        {fact::kAfterZeroRatio, static_cast<double>(zeroed) / static_cast<double>(event.gradients)},
        {fact::kCause, reason}};
    return finding;
  }

  static std::string what(const std::string& kind, std::int64_t gradients, std::int64_t bad,
                          bool is_written) {
    const std::string norm = kind == "nan" ? "NaN" : "Inf";
    const std::string begin = fmt::format("total gradient norm is {}; clipping set ", norm);
    if (kind == "nan") return begin + fmt::format("all {} to NaN", counted(gradients, "gradient"));
    if (is_written) {
      return begin + fmt::format("what was finite in {} to 0 and left NaN where Inf was",
                                 counted(gradients, "gradient"));
    }
    if (bad == 0) return begin + fmt::format("all {} to 0", counted(gradients, "gradient"));
    return begin + fmt::format("{} of {} to 0 and left NaN in {}", gradients - bad,
                               counted(gradients, "gradient"), bad);
  }

  std::string cause(const Nonfinite& before, const std::string& kind) const {
    if (!before.empty()) return "nonfinite_gradient";
    if (!nonfinite_.values_seen()) return "unknown";
    const bool overflows = kind == "inf" && nonfinite_.may_overflow();
    return overflows ? "overflow_of_square" : "written_after_backward";
  }

  std::string why(const Nonfinite& before, const std::string& kind, const std::string& reason,
                  const RunState& state) const {
    if (!before.empty()) return NonfiniteGradients::text(before, state) + " before it";
    if (!nonfinite_.values_seen()) return "the gradients were not read as they arrived";
    return std::string("all gradients were finite as backward gave them; ") +
           (reason == "overflow_of_square"
                ? "the sum of their squares overflows"
                : fmt::format("something wrote {} into them before the clipping",
                              kind == "inf" ? "Inf" : "NaN"));
  }

  NonfiniteGradients nonfinite_;
  std::map<TensorId, Finding> pending_;
};
}  // namespace

std::unique_ptr<Check> make_clip_nonfinite_norm() { return std::make_unique<ClipNonfiniteNorm>(); }

}  // namespace ddpscope
