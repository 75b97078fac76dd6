#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "checks/call_text.h"
#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/pending_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
/// grad-used-while-reducing; docs/checks/grad-used-while-reducing.md
class GradUsedWhileReducing final : public Check {
 public:
  // The first one stands for all that the same loop uses.
  void on_pending_use(const PendingUseEvent& event, const RunState& state,
                      Findings& findings) override {
    if (!told_.has_value()) told_ = event.parameter;
    if (told_ != event.parameter) return;
    release(findings);
    held_ = Held{.group = event.group, .seq = event.seq, .finding = describe(event, state)};
    if (event.by.stack == 0) release(findings);
  }
  void on_collective_end(const CollectiveEndEvent& event, const RunState& state,
                         Findings& findings) override {
    if (!held_.has_value() || held_->seq != event.seq || held_->group != event.group) return;
    const std::string waited = add_site("called", event.waited, state, held_->finding);
    if (!waited.empty()) {
      held_->finding.why += "; it waits at " + waited;
      held_->finding.facts.push_back({fact::kWaitSite, waited});
    }
    release(findings);
  }
  void on_cycle_end(const CycleEndEvent&, const RunState&, Findings& findings) override {
    release(findings);
  }
  void on_exit(const ExitEvent&, const RunState&, Findings& findings) override {
    release(findings);
  }

 private:
  /// What waits for the site of the wait, no longer than its step.
  struct Held {
    std::uint64_t group = 0;
    std::uint64_t seq = 0;
    Finding finding;
  };

  void release(Findings& findings) {
    if (held_.has_value()) findings.push_back(std::move(held_->finding));
    held_.reset();
  }

  static std::string what_of(const PendingUseEvent& event, const Finding& finding,
                             const std::string& call) {
    const std::string gradient =
        finding.subject.empty() ? "buffer of gradients" : "gradient of " + finding.subject;
    if (event.use == GradientUse::kStep) {
      return fmt::format("step() reads the {} while {} on it is pending", gradient, call);
    }
    return fmt::format("{} {} while {} on it is pending", gradient, words_for(event.use).done,
                       call);
  }

  static std::string why_of(const PendingUseEvent& event, const std::string& call,
                            const RunState& state, Finding& finding) {
    const std::string issued = add_site("called", event.issued, state, finding);
    const PendingUseWords words = words_for(event.use);
    const bool writes = words.access == "write";
    const std::string used = add_site(writes ? "changed" : "used", event.by.stack, state, finding);
    finding.facts.push_back({fact::kIssueSite, issued});
    finding.facts.push_back({fact::kAccessSite, used});
    return fmt::format("{} was issued{}, {} {} it{} before wait(): the result depends on timing",
                       call, issued.empty() ? "" : " at " + issued,
                       words.by.empty() ? std::string_view(event.op) : words.by, words.does,
                       used.empty() ? "" : " at " + used);
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
    finding.fixes = fixes_for(event);
    finding.facts = {{fact::kAccess, std::string(words_for(event.use).access)},
                     {fact::kCollectiveSeq, static_cast<std::int64_t>(event.seq)}};
    finding.why = why_of(event, call, state, finding);
    if (parameter != nullptr) {
      finding.facts.push_back({fact::kParameter, tensor_path(*parameter)});
    }
    return finding;
  }

  std::optional<TensorId> told_;
  std::optional<Held> held_;
};
}  // namespace

std::unique_ptr<Check> make_grad_used_while_reducing() {
  return std::make_unique<GradUsedWhileReducing>();
}

}  // namespace ddpscope
