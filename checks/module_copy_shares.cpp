#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/self_writes.h"
#include "checks/shared_roots.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr int kMinCycles = 2;

/// module-copy-shares; docs/checks/module-copy-shares.md
class ModuleCopyShares final : public Check {
 public:
  void on_tree(const TreeEvent& event, const RunState&, Findings&) override { roots_.on(event); }

  void on_op(const OpEvent& event, const RunState& state, Findings&) override {
    if (event.in_backward) return;
    if (event.op.ends_with('_')) return writes_.on(event, state);
    if (event.inputs.size() < 2) return;
    for (const TensorId input : event.inputs) {
      const TensorId id = state.trace().leaf_behind(input);
      const TensorState* tensor = state.tensor(id);
      if (tensor == nullptr || tensor->registrations.empty() || tensor->is_buffer) continue;
      (event.grad_mode ? with_grad_ : without_grad_).insert(id);
    }
  }

  void on_cycle_end(const CycleEndEvent&, const RunState& state, Findings& findings) override {
    const auto is_used_apart = [this](TensorId id) { return without_grad_.contains(id); };
    if (!writes_.parameters().empty() || std::ranges::any_of(with_grad_, is_used_apart)) {
      for (const SharedRoots& roots : roots_.shared(state)) tell(roots, findings);
    }
    for (const SharedRoots& roots : sharing_memory(writes_.in_shared_memory(), state)) {
      tell_memory(roots, findings);
    }
    writes_.clear();
    with_grad_.clear();
    without_grad_.clear();
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    for (auto& [names, told] : told_) told.cycles = 0;
  }

 private:
  void tell(const SharedRoots& roots, Findings& findings) {
    const auto is_copied = [this](TensorId id) { return writes_.parameters().contains(id); };
    const auto is_used_apart = [this](TensorId id) {
      return with_grad_.contains(id) && without_grad_.contains(id);
    };
    const bool writes_itself = std::ranges::any_of(roots.shared, is_copied);
    Told& told = told_[{roots.first, roots.second}];
    if (std::ranges::any_of(roots.shared, is_used_apart)) ++told.cycles;
    if (!writes_itself && told.cycles < kMinCycles) return;
    // One object that is attached twice may be evaluated in each step.
    const bool may_be_right = roots.is_nameless && !writes_itself;
    const Severity severity = may_be_right ? Severity::kNote : Severity::kWarning;
    if (told.severity >= severity) return;
    told.severity = severity;
    findings.push_back(describe(roots, writes_itself ? writes_.by() : ""));
    findings.back().severity = severity;
  }

  void tell_memory(const SharedRoots& roots, Findings& findings) {
    Told& told = told_[{roots.first, roots.second}];
    if (++told.cycles < kMinCycles || told.severity.has_value()) return;
    told.severity = Severity::kWarning;
    findings.push_back(describe(roots, writes_.by()));
    findings.back().severity = Severity::kWarning;
  }

  static Finding describe(const SharedRoots& roots, const std::string& writer) {
    using enum Applicability;
    const auto shared = static_cast<std::int64_t>(roots.shared.size());
    Finding finding;
    finding.phase = Phase::kForward;
    finding.model = roots.second;
    finding.what = fmt::format("shares {} of {} with {}", shared, counted(roots.total, "parameter"),
                               roots.first);
    finding.why = fmt::format(
        "{}: {}, so {} follows {} exactly",
        roots.by_memory ? "set_data() of another tensor shares its memory"
                        : "copying a module or its holder copies handles",
        !writer.empty() ? writer + " from one to the other wrote parameters onto themselves"
                        : "the same parameters are used with and without grad mode in each cycle",
        roots.second, roots.first);
    finding.fixes = {
        {"construct a second module and copy values under torch::NoGradGuard", kLikely},
        {"derive from torch::nn::Cloneable and call clone()", kLikely}};
    if (roots.by_memory) {
      finding.fixes = {
          {"copy the values: parameter.copy_(source) under torch::NoGradGuard", kLikely},
          {"set_data(source.detach().clone())", kLikely}};
    }
    finding.facts = {{fact::kRootA, roots.first},
                     {fact::kRootB, roots.second},
                     {fact::kSharedCount, shared},
                     {fact::kTotalCount, roots.total}};
    return finding;
  }

  struct Told {
    int cycles = 0;  ///< in which what they share was read with and without grad mode
    std::optional<Severity> severity;
  };
  AttachedRoots roots_;
  SelfWrites writes_;
  std::set<TensorId> with_grad_, without_grad_;               // in this cycle
  std::map<std::pair<std::string, std::string>, Told> told_;  // by names
};
}  // namespace

std::unique_ptr<Check> make_module_copy_shares() { return std::make_unique<ModuleCopyShares>(); }

}  // namespace ddpscope
