#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "checks/check.h"
#include "checks/cut_text.h"
#include "checks/gradient_cuts.h"
#include "checks/run_state.h"
#include "checks/starved.h"

namespace ddpscope {
namespace {
constexpr int kCutCycles = 2;
constexpr std::string_view kNoGraph = "does not require grad and does not have a grad_fn";

/// autograd-cut; docs/checks/autograd-cut.md
class AutogradCut final : public Check {
 public:
  void on_backward(const BackwardEvent& event, const RunState& state, Findings&) override {
    if (!event.surveyed || !event.accumulates) return;
    const std::vector<TensorId> leaves = unreached(state);
    if (!event.roots_are_leaves) {
      std::ranges::move(find_cuts(state.trace(), event, leaves), std::back_inserter(pending_));
    } else if (std::ranges::none_of(event.roots, [&](TensorId id) {
                 const TensorState* root = state.tensor(id);
                 return root != nullptr && state.eligible(*root);
               })) {
      auto cut = find_leaf_loss(state.trace(), event, leaves);
      if (cut.has_value()) pending_.push_back(std::move(*cut));
    }
  }

  void on_error(const ErrorEvent& event, const RunState& state, Findings& findings) override {
    if (event.message.find(kNoGraph) == std::string::npos) return;
    const BackwardEvent refused{.at = event.at, .roots = state.trace().last_outputs(event.at)};
    auto cuts = narrowed(find_cuts(state.trace(), refused, unreached(state)), state);
    if (cuts.empty() && !event.grad_mode) {
      GradientCut whole = cut_by_grad_mode(state);
      if (!whole.starved.empty()) cuts.push_back(std::move(whole));
    }
    for (const GradientCut& cut : cuts) {
      const auto seen = seen_.find(key_of(cut));
      const std::int64_t since = seen == seen_.end() ? event.at.step : seen->second.first_step;
      findings.push_back(cut_finding(cut, since, state));
      findings.back().severity = Severity::kError;
    }
  }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    if (event.at.cycle != state.last_surveyed_cycle()) return;
    std::set<Key> found;
    for (const GradientCut& cut : narrowed(std::exchange(pending_, {}), state)) {
      found.insert(key_of(cut));
      judge(cut, event, state, findings);
    }
    std::erase_if(seen_, [&](const auto& entry) { return !found.contains(entry.first); });
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    pending_.clear();
    seen_.clear();
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Seen {
    std::int64_t first_step = 0;
    int cycles = 0;
  };
  static Key key_of(const GradientCut& cut) { return {cut.cause, cut.op, cut.path}; }

  void judge(const GradientCut& cut, const CycleEndEvent& event, const RunState& state,
             Findings& findings) {
    const bool some_reached = std::ranges::any_of(state.tensors().all(), [&](const auto& entry) {
      return state.eligible(entry.second) && received_gradient(entry.second, event.at.cycle);
    });
    Seen& seen = seen_[key_of(cut)];
    if (seen.cycles++ == 0) seen.first_step = event.at.step;
    if (some_reached) {
      const bool changes = std::ranges::any_of(cut.starved, [&](TensorId id) {
        return had_gradient_lately(*state.tensor(id), event.at.cycle);
      });
      if (seen.cycles < kCutCycles || changes || cut.without_path) return;
    }
    findings.push_back(cut_finding(cut, seen.first_step, state));
    if (!some_reached) findings.back().severity = Severity::kError;
  }

  std::vector<GradientCut> pending_;  // of the cycle in progress
  std::map<Key, Seen> seen_;
};
}  // namespace

std::unique_ptr<Check> make_autograd_cut() { return std::make_unique<AutogradCut>(); }

}  // namespace ddpscope
