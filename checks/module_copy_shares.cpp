#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/self_writes.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr int kMinCycles = 2;
constexpr double kMinRatio = 0.9;

/// Two names of what is held once.
struct Twins {
  std::string first;
  std::string second;
  std::vector<TensorId> shared;
  std::int64_t total = 0;  ///< parameters of the second
};

std::set<TensorId> parameters_of(const ModelState& model) {
  std::set<TensorId> ids;
  for (const RegisteredTensor& registered : model.tensors) {
    if (!registered.is_buffer) ids.insert(registered.tensor.id);
  }
  return ids;
}

bool stands_in(const ModelState& inner, const ModelState& outer) {
  return !inner.modules.empty() && std::ranges::find(outer.modules, inner.modules.front().id,
                                                     &ModuleInfo::id) != outer.modules.end();
}

/// module-copy-shares; docs/checks/module-copy-shares.md
class ModuleCopyShares final : public Check {
 public:
  void on_tree(const TreeEvent& event, const RunState&, Findings&) override {
    const bool is_default =
        event.label == event.class_name || event.label.starts_with(event.class_name + "#");
    std::vector<std::string>& names = names_[event.model];
    if (is_default || std::ranges::find(names, event.label) != names.end()) return;
    names.push_back(event.label);
  }

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
    const auto is_used_apart = [this](TensorId id) {
      return with_grad_.contains(id) && without_grad_.contains(id);
    };
    const std::set<TensorId>& copied = writes_.parameters();
    if (!copied.empty() || std::ranges::any_of(with_grad_, is_used_apart)) {
      for (const Twins& twins : all_twins(state)) {
        const bool is_copied =
            std::ranges::any_of(twins.shared, [&](TensorId id) { return copied.contains(id); });
        if (std::ranges::any_of(twins.shared, is_used_apart)) ++cycles_[key_of(twins)];
        if (!is_copied && cycles_[key_of(twins)] < kMinCycles) continue;
        if (!told_.insert(key_of(twins)).second) continue;
        findings.push_back(describe(twins, is_copied ? writes_.by() : ""));
      }
    }
    writes_.clear();
    with_grad_.clear();
    without_grad_.clear();
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { cycles_.clear(); }

 private:
  using Key = std::pair<std::string, std::string>;
  static Key key_of(const Twins& twins) { return {twins.first, twins.second}; }

  std::vector<Twins> all_twins(const RunState& state) const {
    std::vector<Twins> all;
    for (auto second = state.models().begin(); second != state.models().end(); ++second) {
      const ModelState& model = second->second;
      const std::set<TensorId> ids = parameters_of(model);
      const auto total = static_cast<std::int64_t>(ids.size());
      if (const auto names = names_.find(model.id); names != names_.end() && total > 0) {
        for (std::size_t i = 1; i < names->second.size(); ++i) {
          all.push_back({names->second[0], names->second[i], {ids.begin(), ids.end()}, total});
        }
      }
      for (auto first = state.models().begin(); first != second; ++first) {
        const ModelState& other = first->second;
        if (stands_in(model, other) || stands_in(other, model)) continue;
        const std::set<TensorId> theirs = parameters_of(other);
        Twins twins{.first = other.label, .second = model.label, .total = total};
        std::ranges::set_intersection(ids, theirs, std::back_inserter(twins.shared));
        const auto most = static_cast<double>(std::max(ids.size(), theirs.size()));
        const auto shared = static_cast<double>(twins.shared.size());
        if (shared > 0 && shared >= kMinRatio * most) all.push_back(std::move(twins));
      }
    }
    return all;
  }

  static Finding describe(const Twins& twins, const std::string& writer) {
    using enum Applicability;
    const auto shared = static_cast<std::int64_t>(twins.shared.size());
    Finding finding;
    finding.phase = Phase::kForward;
    finding.model = twins.second;
    finding.what = fmt::format("shares {} of {} with {}", shared, counted(twins.total, "parameter"),
                               twins.first);
    finding.why = fmt::format(
        "copying a module or its holder copies handles: {}, so {} follows {} exactly",
        !writer.empty() ? writer + " from one to the other wrote parameters onto themselves"
                        : "the same parameters are used with and without grad mode in each cycle",
        twins.second, twins.first);
    finding.fixes = {
        {"construct a second module and copy values under torch::NoGradGuard", kLikely},
        {"derive from torch::nn::Cloneable and call clone()", kLikely}};
    finding.facts = {{fact::kRootA, twins.first},
                     {fact::kRootB, twins.second},
                     {fact::kSharedCount, shared},
                     {fact::kTotalCount, twins.total}};
    return finding;
  }

  std::map<ModelId, std::vector<std::string>> names_;  ///< that the program gave, by model
  SelfWrites writes_;
  std::set<TensorId> with_grad_, without_grad_;  // in this cycle
  std::map<Key, int> cycles_;
  std::set<Key> told_;
};
}  // namespace

std::unique_ptr<Check> make_module_copy_shares() { return std::make_unique<ModuleCopyShares>(); }

}  // namespace ddpscope
