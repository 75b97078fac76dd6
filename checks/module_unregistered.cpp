#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <unordered_map>

#include "checks/check.h"
#include "checks/fed_leaves.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/unregistered_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
// A finding about tensors that an optimizer built before capture could still hold waits longer.
constexpr std::int64_t kCyclesWithUnknownOptimizers = 4;

struct Registered {
  const ModelState* model = nullptr;
  std::int64_t reached_count = 0;
  std::int64_t reached_elements = 0;
  std::string device = {};
};

/// The model whose parameters the backward of this step reached, or else the first one.
Registered registered_with(const RunState& state) {
  Registered found{.model = state.first_model()};
  for (const auto& [id, model] : state.models()) {
    std::set<TensorId> counted;
    std::int64_t elements = 0;
    for (const RegisteredTensor& registered : model.tensors) {
      const TensorState* tensor = state.tensor(registered.tensor.id);
      if (tensor == nullptr || tensor->reached_step != state.now().step) continue;
      if (counted.insert(registered.tensor.id).second) elements += tensor->info.elements;
    }
    if (counted.empty()) continue;
    return {.model = &model,
            .reached_count = static_cast<std::int64_t>(counted.size()),
            .reached_elements = elements,
            .device = state.tensor(*counted.begin())->info.device};
  }
  return found;
}

/// module-unregistered; docs/checks/module-unregistered.md
class ModuleUnregistered final : public Check {
 public:
  void on_backward_end(const BackwardEndEvent&, const RunState& state,
                       Findings& findings) override {
    fed_.see(state);
    if (!state.models().empty() && state.optimizers_known()) judge(state, findings);
  }
  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    if (event.at.cycle >= kCyclesWithUnknownOptimizers) judge(state, findings);
  }
  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    judge(state, findings);
  }

 private:
  void judge(const RunState& state, Findings& findings) {
    if (state.models().empty()) return;
    const Registered registered = registered_with(state);
    std::vector<const TensorState*> loose = state.loose_leaves();
    std::erase_if(loose, [&](const TensorState* tensor) {
      return state.loose_module_evaluates(tensor->info.id) || lies_behind_history(*tensor, state) ||
             state.declared(registered.model->id, tensor->use.common_path.value_or(""), "external");
    });
    // Those of another model, or below another module, have a finding of their own.
    std::vector<const TensorState*> fresh;
    std::ranges::copy_if(loose, std::back_inserter(fresh), [this](const TensorState* tensor) {
      return !place_of_.contains(tensor->info.id);
    });
    const auto is_fed = [this](const TensorState* one) { return fed_.contains(*one); };
    const bool of_fed = std::ranges::all_of(fresh, is_fed);
    if (!of_fed) std::erase_if(fresh, is_fed);
    std::erase_if(loose, [&](const TensorState* tensor) { return is_fed(tensor) != of_fed; });
    if (fresh.empty()) return;
    const std::string place =
        registered.model->label + "/" + common_module(*registered.model, fresh);
    for (const TensorState* tensor : fresh) place_of_[tensor->info.id] = place;
    // Nor those that are reached no more, as of a training before this one.
    const std::int64_t since =
        std::ranges::min(fresh, {}, &TensorState::reached_step)->reached_step;
    std::erase_if(loose, [&](const TensorState* tensor) {
      return place_of_.at(tensor->info.id) != place || tensor->reached_step < since;
    });
    std::ranges::sort(loose, {}, &TensorState::first_seen);
    findings.push_back(describe(state, registered, loose));
    if (!of_fed) return;
    findings.back().severity = Severity::kNote;
    findings.back().why += "; registered layers read them, as their input";
    findings.back().fixes = fixes_of_fed();
  }

  static Finding describe(const RunState& state, const Registered& registered,
                          const std::vector<const TensorState*>& loose) {
    const auto count = static_cast<std::int64_t>(loose.size());
    const std::int64_t elements = elements_of(loose);
    const double share = elements == 0
                             ? 0.0
                             : static_cast<double>(elements) /
                                   static_cast<double>(elements + registered.reached_elements);
    const std::vector<std::string> ops = consumer_ops(loose);

    Finding finding;
    finding.confidence = state.optimizers_known() ? Confidence::kHigh : Confidence::kMedium;
    finding.model = registered.model->label;
    finding.module_path = common_module(*registered.model, loose);
    if (count == 1) finding.subject = "tensor " + shape_text(loose.front()->info.shape);
    finding.op = ops.empty() ? "" : ops.front();
    const UnregisteredWords words = unregistered_words(*registered.model, loose, state);
    finding.what = fmt::format("{}, {}, {} {}; that is {:.3g} % of what the loss reaches",
                               counted(count, "trainable tensor"), counted(elements, "element"),
                               count == 1 ? "is" : "are", words.where, share * 100);
    finding.why = words.why;
    finding.severity = words.severity;
    if (!words.unused.empty()) finding.module_path = words.unused;
    finding.fixes = words.fixes;
    finding.facts = {{fact::kTensorsCount, count},
                     {fact::kElements, elements},
                     {fact::kShareRatio, share},
                     {fact::kLargestShapes, as_fact(largest_shapes(loose))},
                     {fact::kConsumerOps, as_fact(ops)},
                     {fact::kRegisteredCount, registered.reached_count},
                     {fact::kModuleType, module_types(state, loose).front().word}};
    add_device(loose.front()->info.device, registered, finding);
    return finding;
  }

  static void add_device(std::string_view device, const Registered& registered, Finding& finding) {
    if (registered.device.empty()) return;
    finding.facts.push_back({fact::kWrongDevice, device != registered.device});
  }

  FedLeaves fed_;
  std::unordered_map<TensorId, std::string> place_of_;  ///< of what was reported: model and module
};
}  // namespace

std::unique_ptr<Check> make_module_unregistered() { return std::make_unique<ModuleUnregistered>(); }

}  // namespace ddpscope
