#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "checks/buffer_copies.h"
#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/replaced_cycles.h"
#include "checks/replaced_text.h"
#include "checks/run_state.h"
#include "checks/substitutions.h"

namespace ddpscope {
namespace {
/// module-replaced; docs/checks/module-replaced.md
class ModuleReplaced final : public Check {
 public:
  void on_tree(const TreeEvent& event, const RunState& state, Findings&) override {
    std::erase_if(trees_,
                  [&state](const auto& tree) { return !state.models().contains(tree.first); });
    auto& known = trees_[event.model];
    std::map<std::string, TensorId> now;
    for (const RegisteredTensor& registered : event.tensors) {
      const std::string path = registered.module_path + "." + registered.name;
      now[path] = registered.tensor.id;
      const auto before = known.find(path);
      if (before == known.end() || before->second == registered.tensor.id) continue;
      successors_[before->second] = {event.model, registered.tensor.id};
    }
    known = std::move(now);
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    const OptimizerState& optimizer = state.optimizers().at(event.optimizer);
    cycles_.stepped(event.optimizer);
    std::vector<Replacement> held;
    for (const auto& group : optimizer.groups) {
      for (const OptimizerMember& member : group) {
        const auto next = successors_.find(member.tensor);
        if (next == successors_.end()) continue;
        const TensorState* old_tensor = state.tensor(member.tensor);
        const TensorState* tensor = state.tensor(next->second.tensor);
        const bool left_behind = state.models().contains(next->second.model) &&
                                 old_tensor != nullptr && old_tensor->registrations.empty() &&
                                 tensor != nullptr && is_trained_elsewhere(*tensor, state);
        if (left_behind) held.push_back({tensor, old_tensor});
        if (left_behind) successors_.erase(next);
      }
    }
    say_replaced("re_registered", optimizer_label(optimizer), held, state, findings);
  }

  void on_op(const OpEvent& event, const RunState& state, Findings&) override {
    if (event.in_backward) return;
    substitutions_.add(event, state);
    copies_.add(event, state);
  }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    std::map<std::pair<std::string, bool>, std::vector<Replacement>> by_cause;  // or of buffers
    for (const TensorId id : state.tensors().registered()) {
      const TensorState& tensor = *state.tensor(id);
      const TensorState* used = stands_in_for(tensor, event.at.cycle, state);
      if (!cycles_.see(tensor, used, event.at.cycle, state)) continue;
      const bool is_free = used->registrations.empty();
      by_cause[{is_free ? "member_reassigned" : "tied_by_assignment", tensor.is_buffer}].push_back(
          {&tensor, used});
    }
    cycles_.end_cycle();
    for (const auto& [cause, replaced] : by_cause) {
      say_replaced(cause.first, "", replaced, state, findings);
    }
    say_rebound(state, findings);
  }

  void on_quiet_buffer(const QuietBufferEvent& event, const RunState& state,
                       Findings& findings) override {
    quiet_.insert(event.tensor);
    say_rebound(state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { cycles_.clear(); }

 private:
  struct Successor {
    ModelId model = 0;
    TensorId tensor = 0;
  };

  /// Registered where the old one was, trainable, and in no optimizer.
  static bool is_trained_elsewhere(const TensorState& tensor, const RunState& state) {
    return !tensor.registrations.empty() && tensor.owners.empty() && tensor.info.requires_grad &&
           state.eligible(tensor);
  }

  /// The tensor that forward uses while this registered one is neither used nor reached.
  const TensorState* stands_in_for(const TensorState& tensor, std::int64_t cycle,
                                   const RunState& state) const {
    if (tensor.is_buffer && !tensor.registrations.empty()) {
      return substitutions_.find_for_buffer(tensor, cycle, state);
    }
    if (is_reached(tensor, cycle) || tensor.registrations.empty()) return nullptr;
    if (!state.eligible(tensor) || !tensor.info.requires_grad) return nullptr;
    const TensorState* used = substitutions_.find(tensor, state);
    const bool is_used =
        used != nullptr && (used->gradient_cycle == cycle || !used->info.requires_grad);
    return is_used ? used : nullptr;
  }

  void say_rebound(const RunState& state, Findings& findings) {
    std::vector<Replacement> rebound;
    for (const TensorId id : quiet_) {
      const TensorState* buffer = state.tensor(id);
      if (buffer != nullptr && !buffer->registrations.empty() && copies_.replaced(id)) {
        rebound.push_back({buffer, nullptr});
      }
    }
    for (const Replacement& replacement : rebound) quiet_.erase(replacement.tensor->info.id);
    say_replaced("buffer_rebound", "", rebound, state, findings);
  }

  std::map<ModelId, std::map<std::string, TensorId>> trees_;
  std::unordered_map<TensorId, Successor> successors_;
  ReplacedCycles cycles_;
  std::unordered_set<TensorId> quiet_;
  Substitutions substitutions_;
  BufferCopies copies_;
};
}  // namespace

std::unique_ptr<Check> make_module_replaced() { return std::make_unique<ModuleReplaced>(); }

}  // namespace ddpscope
