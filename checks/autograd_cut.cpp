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
#include "checks/missing_cause.h"
#include "checks/run_state.h"

namespace ddpscope {
namespace {
constexpr int kCutCycles = 2;
constexpr std::string_view kNoGraph = "does not require grad and does not have a grad_fn";

bool received_gradient(const TensorState& tensor, std::int64_t cycle) {
  return tensor.gradient_cycle == cycle || tensor.undefined_cycle == cycle;
}

/// In an optimizer, or written by the loop itself: targets and averaged copies are neither.
bool is_trained(const RunState& state, const TensorState& tensor) {
  if (!expects_gradient(state, tensor)) return false;
  if (!tensor.owners.empty()) return true;
  const bool owners_known = std::ranges::any_of(
      state.optimizers(), [](const auto& entry) { return entry.second.members_known; });
  return !owners_known && tensor.written_by.empty();
}

bool in_train_mode(const RunState& state, const TensorState& tensor) {
  const ModelState* model = state.model_of(tensor);
  return model == nullptr || model->modules.empty() || model->modules.front().training;
}

bool had_gradient_lately(const TensorState& tensor, std::int64_t cycle) {
  return tensor.gradients > 0 && tensor.gradient_cycle > cycle - kMissingCycles;
}

/// The trainable leaves that operators of this step read and no backward of it reached.
std::vector<TensorId> unreached(const RunState& state) {
  std::vector<TensorId> leaves;
  for (const TensorId id : state.trace().used_leaves()) {
    const TensorState* tensor = state.tensor(id);
    if (tensor == nullptr || tensor->reached_step == state.now().step) continue;
    if (state.eligible(*tensor)) leaves.push_back(id);
  }
  return leaves;
}

bool still_starves(const GradientCut& cut, TensorId id, const RunState& state) {
  const TensorState* tensor = state.tensor(id);
  if (tensor == nullptr || received_gradient(*tensor, state.now().cycle)) return false;
  if (cut.cause == "grad_mode_off" && !in_train_mode(state, *tensor)) return false;
  return is_trained(state, *tensor);
}

/// The cuts with the parameters that still wait for a gradient in this cycle.
std::vector<GradientCut> narrowed(std::vector<GradientCut> cuts, const RunState& state) {
  for (GradientCut& cut : cuts) {
    std::erase_if(cut.starved, [&](TensorId id) { return !still_starves(cut, id, state); });
  }
  std::erase_if(cuts, [](const GradientCut& cut) { return cut.starved.empty(); });
  return merged(cuts);
}

/// autograd-cut; docs/checks/autograd-cut.md
class AutogradCut final : public Check {
 public:
  void on_backward(const BackwardEvent& event, const RunState& state, Findings&) override {
    if (!event.surveyed || !event.accumulates) return;
    const std::vector<TensorId> leaves = unreached(state);
    if (!event.roots_are_leaves) {
      std::ranges::move(find_cuts(state.trace(), event.roots, leaves, event.at.thread),
                        std::back_inserter(pending_));
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
    const std::vector<TensorId> roots = state.trace().last_outputs(event.at);
    const auto cuts = find_cuts(state.trace(), roots, unreached(state), event.at.thread);
    for (const GradientCut& cut : narrowed(cuts, state)) {
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
