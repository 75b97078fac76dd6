#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "checks/check.h"
#include "checks/constant_terms.h"
#include "checks/cut_text.h"
#include "checks/gradient_cuts.h"
#include "checks/refused_backward.h"
#include "checks/run_state.h"
#include "checks/starved.h"

namespace ddpscope {
namespace {
constexpr int kCutCycles = 2;
constexpr std::string_view kNoGraph = "does not require grad and does not have a grad_fn";

/// autograd-cut; docs/checks/autograd-cut.md
class AutogradCut final : public Check {
 public:
  void on_backward(const BackwardEvent& event, const RunState& state, Findings& findings) override {
    ++backwards_;
    refused_.on(event, findings);
    terms_.on(event, state, findings);
    if (!event.surveyed || !event.accumulates) return;
    const std::vector<TensorId> leaves = unreached(state);
    if (!event.roots_are_leaves) {
      for (GradientCut& cut : find_cuts(state.trace(), event, leaves)) keep(std::move(cut));
      for (GradientCut& cut : idle_cuts(event, state)) keep(std::move(cut));
    } else if (std::ranges::none_of(event.roots, [&](TensorId id) {
                 const TensorState* root = state.tensor(id);
                 return root != nullptr && state.eligible(*root);
               })) {
      auto cut = find_leaf_loss(state.trace(), event, leaves);
      if (cut.has_value()) keep(std::move(*cut));
    }
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    refused_.went_on(findings);
    for (Pending& pending : pending_) {
      const bool is_last = pending.backward == backwards_;
      pending.is_own |= is_last && std::ranges::any_of(pending.cut.starved, [&](TensorId id) {
                          const TensorState* tensor = state.tensor(id);
                          return tensor != nullptr && tensor->is_owned_by(event.optimizer);
                        });
    }
  }

  void on_error(const ErrorEvent& event, const RunState& state, Findings& findings) override {
    RefusedBackward::of_input(event, state, findings);
    if (event.message.find(kNoGraph) == std::string::npos) return;
    const BackwardEvent refused{.at = event.at, .roots = state.trace().last_outputs(event.at)};
    std::vector<TensorId> leaves = unreached(state);
    std::erase_if(leaves, [&](TensorId id) { return !state.tensor(id)->info.requires_grad; });
    auto cuts = narrowed(find_cuts(state.trace(), refused, leaves), state);
    if (cuts.empty()) {
      GradientCut whole = event.grad_mode ? cut_by_rebinding(state) : cut_by_grad_mode(state);
      if (!whole.starved.empty()) cuts.push_back(std::move(whole));
    }
    if (cuts.empty()) refused_.graphless(event, state, findings);
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
    for (const GradientCut& cut : narrowed(own_first(std::exchange(pending_, {})), state)) {
      found.insert(key_of(cut));
      judge(cut, event, state, findings);
    }
    std::erase_if(seen_, [&](const auto& entry) { return !found.contains(entry.first); });
  }

  void on_exit(const ExitEvent&, const RunState&, Findings& findings) override {
    refused_.ended(findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    pending_.clear();
    seen_.clear();
    terms_.clear();
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Seen {
    std::int64_t first_step = 0;
    int cycles = 0;
  };
  struct Pending {
    GradientCut cut;
    std::int64_t backward = 0;
    bool is_own = false;  ///< an optimizer of what starves stepped after that backward
  };

  void keep(GradientCut cut) { pending_.push_back({std::move(cut), backwards_}); }

  /// A loss that an optimizer of others trains may leave them out.
  static std::vector<GradientCut> own_first(const std::vector<Pending>& pending) {
    std::set<TensorId> own;
    for (const Pending& one : pending) {
      if (one.is_own) own.insert(one.cut.starved.begin(), one.cut.starved.end());
    }
    std::vector<GradientCut> cuts;
    for (const Pending& one : pending) {
      cuts.push_back(one.cut);
      if (one.is_own) continue;
      std::erase_if(cuts.back().starved, [&](TensorId id) { return own.contains(id); });
    }
    return cuts;
  }
  static Key key_of(const GradientCut& cut) { return {cut.cause, cut.op, cut.path}; }
  void judge(const GradientCut& cut, const CycleEndEvent& event, const RunState& state,
             Findings& findings) {
    const bool some_reached = some_received_gradient(state, event.at.cycle);
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

  RefusedBackward refused_;
  ConstantTerms terms_;
  std::int64_t backwards_ = 0;
  std::vector<Pending> pending_;  // of the cycle in progress
  std::map<Key, Seen> seen_;
};
}  // namespace

std::unique_ptr<Check> make_autograd_cut() { return std::make_unique<AutogradCut>(); }

}  // namespace ddpscope
