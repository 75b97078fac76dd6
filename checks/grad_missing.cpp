#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kCycles = 4;

struct Cause {
  std::string name;  ///< empty: undecided
  std::string op = {};
  std::vector<std::int64_t> shape = {};
  auto operator<=>(const Cause&) const = default;
};

Cause cause_of(const RunState& state, const TensorState& tensor) {
  const std::int64_t begin = state.now().cycle - kCycles;
  const TensorUse& use = tensor.use;
  if (tensor.undefined_cycle > begin) return {.name = "function_returned_nothing"};
  if (state.last_surveyed_cycle() <= begin) return {};
  if (use.last_cycle <= begin) return {.name = "not_used"};
  const std::string first_op = use.ops.empty() ? "" : use.ops.front();
  if (use.last_grad_mode_cycle <= begin) return {.name = "grad_mode_off", .op = first_op};
  if (!use.end.has_value()) return {};
  if (use.end->cut) return {.name = "cut", .op = use.end->op, .shape = use.end->shape};
  if (!use.end->differentiable) return {.name = "not_used"};
  return {.name = use.end->alive ? "output_not_in_loss" : "result_dropped",
          .op = use.end->op,
          .shape = use.end->shape};
}

struct Words {
  std::string why;  ///< `{}`: the operator at which the path ends
  std::vector<Fix> fixes = {};
};

Words words_of(const std::string& cause) {
  using enum Applicability;
  const std::map<std::string, Words> words = {
      {"not_used",
       {"no operator with a gradient path read them",
        {{"remove the layer or call it", kNeedsDecision},
         {"freeze it before averaging starts", kLikely}}}},
      {"grad_mode_off",
       {"only operators with grad mode off read them, the first {}",
        {{"requires_grad_(false), if it is to stay frozen", kLikely},
         {"end the torch::NoGradGuard before this layer runs", kNeedsDecision}}}},
      {"cut",
       {"what follows {} went on without a gradient path",
        {{"remove detach() or the guard on the way", kNeedsDecision}}}},
      {"output_not_in_loss",
       {"they ran; the output of {} was still alive at backward and entered no loss",
        {{"add the output to the loss", kLikely}, {"do not compute it", kLikely}}}},
      {"result_dropped",
       {"they ran; the output of {} was gone before backward began",
        {{"use the result of that operator", kLikely}, {"do not compute it", kLikely}}}},
      {"function_returned_nothing",
       {"backward reached them, and the function before them returned no gradient",
        {{"return a gradient for each input of the function", kLikely}}}},
      {"",
       {"candidates: not_used, output_not_in_loss, result_dropped; no operator record covers these "
        "cycles; next: DDPSCOPE=level=stacks records the operators of every step"}}};
  return words.at(cause);
}

/// grad-missing; docs/checks/grad-missing.md
class GradMissing final : public Check {
 public:
  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    std::map<Cause, std::vector<const TensorState*>> missing;
    for (const auto& [id, tensor] : state.tensors().all()) {
      if (tensor.gradient_cycle == event.at.cycle || !expects_gradient(state, tensor)) {
        cycles_.erase(id);
        reported_.erase(id);
        continue;
      }
      // A model that no backward reached in this cycle was not trained in it.
      if (!state.gradient_reached(tensor.registrations.front().model)) continue;
      if (++cycles_[id] < kCycles || reported_.contains(id)) continue;
      if (tensor.owners.empty() && !state.optimizers_known()) continue;
      if (is_copy(state, tensor)) continue;
      reported_.insert(id);
      missing[cause_of(state, tensor)].push_back(&tensor);
    }
    for (const auto& [cause, tensors] : missing) {
      for (const TensorGroup& group : collapse(state, tensors)) {
        findings.push_back(describe(group, cause, event.at));
      }
    }
  }

  void on_dropped() override { cycles_.clear(); }

 private:
  static bool expects_gradient(const RunState& state, const TensorState& tensor) {
    if (tensor.registrations.empty() || !state.eligible(tensor)) return false;
    if (state.waits_for_first_step(tensor)) return false;
    const Registration& at = tensor.registrations.front();
    if (state.declared(at.model, tensor_path(tensor), "external")) return false;
    for (const OptimizerId owner : tensor.owners) {
      for (const auto& group : state.optimizers().at(owner).groups) {
        const auto member = std::ranges::find(group, tensor.info.id, &OptimizerMember::tensor);
        if (member != group.end() && member->grad_defined) return false;
      }
    }
    return true;
  }

  /// Targets and averages: in no optimizer, never had a gradient, written or read without grad.
  static bool is_copy(const RunState& state, const TensorState& tensor) {
    if (!tensor.owners.empty() || tensor.gradients > 0) return false;
    return !tensor.written_by.empty() || cause_of(state, tensor).name == "grad_mode_off";
  }

  static Finding describe(const TensorGroup& group, const Cause& cause, const Stamp& at) {
    const bool decided = !cause.name.empty();
    Finding finding = about(group);
    finding.severity = decided ? Severity::kWarning : Severity::kNote;
    finding.evidence_status = decided ? EvidenceStatus::kEstablished : EvidenceStatus::kUndecided;
    finding.op = cause.op;
    finding.what =
        fmt::format("{} ({}) got no gradient in {} cycles: {}",
                    counted(static_cast<std::int64_t>(group.tensors.size()), "parameter"),
                    counted(elements_of(group.tensors), "element"), kCycles,
                    decided ? cause.name : "cause undecided");
    const Words words = words_of(cause.name);
    const std::string end = cause.shape.empty() ? "" : " " + shape_text(cause.shape);
    finding.why = fmt::format(fmt::runtime(words.why), cause.op + end);
    if (group.tensors.size() > 3)
      finding.why += "; largest " + joined(largest_shapes(group.tensors));
    finding.fixes = words.fixes;
    if (decided) finding.facts.push_back({fact::kCause, cause.name});
    if (!cause.op.empty()) finding.facts.push_back({fact::kPathEndOp, cause.op});
    finding.facts.push_back({fact::kWindowSteps, at.step});
    return finding;
  }

  std::unordered_map<TensorId, std::int64_t> cycles_;
  std::unordered_set<TensorId> reported_;
};
}  // namespace

std::unique_ptr<Check> make_grad_missing() { return std::make_unique<GradMissing>(); }

}  // namespace ddpscope
