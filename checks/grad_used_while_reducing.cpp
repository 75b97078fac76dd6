#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string_view>

#include "checks/call_text.h"
#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// grad-used-while-reducing; docs/checks/grad-used-while-reducing.md
class GradUsedWhileReducing final : public Check {
 public:
  // The first one stands for all that the same loop uses.
  void on_pending_use(const PendingUseEvent& event, const RunState& state,
                      Findings& findings) override {
    if (!told_.has_value()) told_ = event.parameter;
    if (told_ == event.parameter) findings.push_back(describe(event, state));
  }

 private:
  static std::string_view use_word(GradientUse use) {
    switch (use) {
      case GradientUse::kRead:
        return "read";
      case GradientUse::kWrite:
        return "write";
      case GradientUse::kStep:
        return "step";
    }
    return "";
  }

  static std::string what_of(const PendingUseEvent& event, const Finding& finding,
                             const std::string& call) {
    const std::string gradient =
        finding.subject.empty() ? "buffer of gradients" : "gradient of " + finding.subject;
    if (event.use == GradientUse::kStep) {
      return fmt::format("step() reads the {} while {} on it is pending", gradient, call);
    }
    return fmt::format("{} {} while {} on it is pending", gradient,
                       event.use == GradientUse::kWrite ? "written" : "read", call);
  }

  static std::string why_of(const PendingUseEvent& event, const std::string& call,
                            const RunState& state, Finding& finding) {
    const std::string issued = add_site("called", event.issued, state, finding);
    const bool writes = event.use == GradientUse::kWrite;
    const std::string used = add_site(writes ? "changed" : "used", event.by.stack, state, finding);
    const std::string act = event.use == GradientUse::kStep ? "step()" : event.op;
    return fmt::format("{} was issued{}, {} {} it{} before wait(): the result depends on timing",
                       call, issued.empty() ? "" : " at " + issued, act,
                       writes ? "writes" : "reads", used.empty() ? "" : " at " + used);
  }

  static Finding describe(const PendingUseEvent& event, const RunState& state) {
    const TensorState* parameter = state.tensor(event.parameter);
    Finding finding;
    if (parameter != nullptr) finding = about(collapse(state, {parameter}).front());
    const bool is_step = event.use == GradientUse::kStep;
    finding.severity = Severity::kError;
    finding.step = event.at.step;
    finding.phase = is_step ? Phase::kOptimizer : Phase::kReduce;
    finding.op = event.op;
    const std::string call = fmt::format("{} #{}", call_word(event.kind), event.seq);
    finding.what = what_of(event, finding, call);
    finding.why = why_of(event, call, state, finding);
    finding.fixes = {{fmt::format("`work->wait()` before {}",
                                  is_step ? "step()" : fmt::format("`{}`", event.op)),
                      kSafe}};
    if (event.use == GradientUse::kWrite) {
      finding.fixes.push_back(
          {"use the average as reduce operation, so that nothing is left to divide", kLikely});
    }
    finding.facts = {{fact::kAccess, std::string(use_word(event.use))},
                     {fact::kCollectiveSeq, static_cast<std::int64_t>(event.seq)}};
    if (parameter != nullptr) {
      finding.facts.push_back({fact::kParameter, tensor_path(*parameter)});
    }
    return finding;
  }

  std::optional<TensorId> told_;
};
}  // namespace

std::unique_ptr<Check> make_grad_used_while_reducing() {
  return std::make_unique<GradUsedWhileReducing>();
}

}  // namespace ddpscope
