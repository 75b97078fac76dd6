#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

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
constexpr std::size_t kMaxOpen = 4096;

/// grad-used-while-reducing; docs/checks/grad-used-while-reducing.md
class GradUsedWhileReducing final : public Check {
 public:
  void on_collective(const CollectiveEvent& event, const RunState&, Findings&) override {
    if (event.waits) return;
    Open open{.seq = event.seq, .group = event.group, .kind = event.kind, .stack = event.stack};
    for (const TensorId id : event.gradients_of) {
      if (id != 0) open.parameters.push_back(id);
    }
    if (open.parameters.empty()) return;
    if (open_.size() >= kMaxOpen) open_.erase(open_.begin());
    open_.push_back(std::move(open));
  }

  void on_collective_end(const CollectiveEndEvent& event, const RunState&, Findings&) override {
    std::erase_if(open_, [&](const Open& open) {
      return open.seq == event.seq && open.group == event.group;
    });
  }

  void on_gradients_scaled(const GradientsScaledEvent& event, const RunState& state,
                           Findings& findings) override {
    const Open* const open = open_on(event.first);
    if (open != nullptr && is_told(event.first)) {
      findings.push_back(describe(*open, event.first, "write", event.at, state));
    }
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    const auto optimizer = state.optimizers().find(event.optimizer);
    if (event.threw || optimizer == state.optimizers().end()) return;
    for (const auto& group : optimizer->second.groups) {
      for (const OptimizerMember& member : group) {
        const Open* open = open_on(member.tensor);
        if (open == nullptr || !is_told(member.tensor)) continue;
        return findings.push_back(describe(*open, member.tensor, "step", event.at, state));
      }
    }
  }

  // The next backward gives other gradients: what nobody waited for is forgotten.
  void on_cycle_end(const CycleEndEvent&, const RunState&, Findings&) override { open_.clear(); }
  void on_dropped(const DroppedEvent&, const RunState&) override { open_.clear(); }

 private:
  /// A call of which the program has not waited.
  struct Open {
    std::uint64_t seq = 0;
    std::uint64_t group = 0;
    CollectiveKind kind = CollectiveKind::kAllReduce;
    StackId stack = 0;
    std::vector<TensorId> parameters;
  };

  /// The first one stands for all that the same loop writes.
  bool is_told(TensorId parameter) {
    if (told_ == 0) told_ = parameter;
    return told_ == parameter;
  }

  const Open* open_on(TensorId parameter) const {
    const auto open = std::ranges::find_if(open_, [parameter](const Open& one) {
      return std::ranges::find(one.parameters, parameter) != one.parameters.end();
    });
    return open == open_.end() ? nullptr : &*open;
  }

  static Finding describe(const Open& open, TensorId id, const std::string& access, const Stamp& at,
                          const RunState& state) {
    const TensorState* parameter = state.tensor(id);
    Finding finding;
    if (parameter != nullptr) finding = about(collapse(state, {parameter}).front());
    finding.severity = Severity::kError;
    finding.step = at.step;
    const bool is_step = access == "step";
    finding.phase = is_step ? Phase::kOptimizer : Phase::kReduce;
    const std::string call = fmt::format("{} #{}", call_word(open.kind), open.seq);
    finding.what = is_step ? fmt::format("step() reads a gradient while {} on it is pending", call)
                           : fmt::format("gradient written while {} on it is pending", call);
    const std::string line = add_site("called", open.stack, state, finding);
    finding.why = fmt::format(
        "{}{} was issued and not waited for: what is read and written now "
        "depends on timing",
        call, line.empty() ? "" : " (" + line + ")");
    finding.fixes = {
        {is_step ? "`work->wait()` before step()" : "`work->wait()` before the gradient is written",
         kSafe},
        {"use the average as reduce operation, so that nothing is left to divide",
         is_step ? kNeedsDecision : kLikely}};
    finding.facts = {{fact::kCollectiveSeq, static_cast<std::int64_t>(open.seq)},
                     {fact::kAccess, access}};
    if (parameter != nullptr) {
      finding.facts.push_back({fact::kParameter, tensor_path(*parameter)});
    }
    return finding;
  }

  std::vector<Open> open_;
  TensorId told_ = 0;
};
}  // namespace

std::unique_ptr<Check> make_grad_used_while_reducing() {
  return std::make_unique<GradUsedWhileReducing>();
}

}  // namespace ddpscope
