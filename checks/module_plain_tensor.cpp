#include <fmt/format.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/plain_tensors.h"
#include "checks/run_state.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kUsedSteps = 2;

/// module-plain-tensor; docs/checks/module-plain-tensor.md
class ModulePlainTensor final : public Check {
 public:
  void on_op(const OpEvent& event, const RunState& state, Findings&) override {
    if (!state.models().empty()) plain_.add(event, state);
  }

  void on_backward(const BackwardEvent& event, const RunState& state, Findings& findings) override {
    for (const auto& [id, use] : plain_.take()) {
      Seen& seen = seen_[id];
      if (seen.step == event.at.step) continue;
      seen.moves |= seen.steps > 0 && seen.offset_bytes != use.offset_bytes;
      seen.step = event.at.step;
      seen.offset_bytes = use.offset_bytes;
      if (use.written) ++seen.written;
      // Of what a member is a view, the member is told where each step reads it as it is.
      const TensorState* tensor = state.tensor(seen.read == use.read ? use.read : id);
      seen.read = use.read;
      if (++seen.steps != kUsedSteps || seen.moves || tensor == nullptr) continue;
      findings.push_back(describe(*tensor, use, seen.written == kUsedSteps, state));
    }
  }

  void on_cycle_end(const CycleEndEvent&, const RunState& state, Findings& findings) override {
    for (const auto& [model, known] : state.models()) {
      for (const RegisteredTensor& registered : known.tensors) {
        if (!registered.is_buffer || !registered.tensor.requires_grad) continue;
        const TensorState* tensor = state.tensor(registered.tensor.id);
        if (tensor == nullptr || !tensor->owners.empty() || tensor->reached_steps < kUsedSteps)
          continue;
        if (mirrored_.insert(tensor->info.id).second) {
          findings.push_back(mirrored(*tensor, known));
        }
      }
    }
  }

 private:
  struct Seen {
    std::int64_t step = -1;
    std::int64_t steps = 0;
    std::int64_t written = 0;
    std::int64_t offset_bytes = 0;
    TensorId read = 0;
    /// Another part in another step, as batches of data that lie in one tensor.
    bool moves = false;
  };

  static std::string device_of(const ModelState& model, const std::string& path,
                               const RunState& state) {
    std::string of_model;
    for (const RegisteredTensor& registered : model.tensors) {
      const TensorState* tensor = state.tensor(registered.tensor.id);
      if (tensor == nullptr) continue;
      if (registered.module_path == path) return tensor->info.device;
      if (of_model.empty()) of_model = tensor->info.device;
    }
    return of_model;
  }

  static Finding describe(const TensorState& tensor, const PlainTensors::Use& use, bool written,
                          const RunState& state) {
    const ModelState& model = *state.first_model();
    const std::string module_device = device_of(model, use.path, state);
    // A number on the CPU is welcome in operators of every device.
    const bool is_number = tensor.info.shape.empty() && tensor.info.device == "cpu";
    const bool elsewhere = module_device != tensor.info.device && !is_number;
    Finding finding;
    finding.severity = elsewhere || written ? Severity::kWarning : Severity::kNote;
    finding.phase = Phase::kForward;
    finding.model = model.label;
    finding.module_path = use.path;
    finding.subject = "tensor " + shape_text(tensor.info.shape);
    finding.op = use.op;
    finding.what = fmt::format("plain tensor {} {} on {} is {} each step and not registered",
                               shape_text(tensor.info.shape), tensor.info.dtype, tensor.info.device,
                               written ? "written" : "read");
    finding.why = elsewhere ? fmt::format(
                                  "the module is on {}, the tensor is not: to(device) "
                                  "moves registered tensors only",
                                  module_device)
                            : "to(device), save and a reduction between ranks pass it over";
    finding.fixes = {
        {"constant or statistic: register_buffer(name, tensor)", Applicability::kLikely},
        {"learnable: register_parameter(name, tensor)", Applicability::kLikely}};
    finding.facts = {{fact::kShape, shape_text(tensor.info.shape)},
                     {fact::kDtype, tensor.info.dtype},
                     {fact::kDevice, tensor.info.device},
                     {fact::kModuleDevice, module_device},
                     {fact::kWrittenEachStep, written},
                     {fact::kBufferRequiresGrad, false}};
    return finding;
  }

  static Finding mirrored(const TensorState& tensor, const ModelState& model) {
    Finding finding;
    finding.phase = Phase::kInit;
    finding.model = model.label;
    finding.module_path = tensor.registrations.front().module_path;
    finding.subject = tensor.registrations.front().name;
    finding.what = fmt::format("buffer {} requires grad and is in no optimizer",
                               shape_text(tensor.info.shape));
    finding.why = "parameters() leaves buffers out: its gradient is computed and never used";
    finding.fixes = {{"learnable: register_parameter instead", Applicability::kLikely},
                     {"constant: requires_grad_(false)", Applicability::kLikely}};
    finding.facts = {{fact::kShape, shape_text(tensor.info.shape)},
                     {fact::kDtype, tensor.info.dtype},
                     {fact::kDevice, tensor.info.device},
                     {fact::kBufferRequiresGrad, true}};
    return finding;
  }

  PlainTensors plain_;
  std::unordered_map<TensorId, Seen> seen_;
  std::unordered_set<TensorId> mirrored_;
};
}  // namespace

std::unique_ptr<Check> make_module_plain_tensor() { return std::make_unique<ModulePlainTensor>(); }

}  // namespace ddpscope
