#include <map>
#include <memory>

#include "checks/failure_check.h"
#include "checks/failure_text.h"
#include "checks/run_state.h"

namespace ddpscope {
namespace {
/// module-operator-failed; docs/checks/module-operator-failed.md
class ModuleOperatorFailed final : public FailureCheck {
 public:
  void on_op(const OpEvent& event, const RunState& state, Findings&) override {
    if (event.module == 0 || event.in_backward) return;
    SurveyedOp& last = last_ops_[event.module];
    last = {.op = event.op, .step = event.at.step};
    for (const TensorId input : event.inputs) {
      const TensorState* tensor = state.tensor(input);
      if (tensor != nullptr) last.shapes.push_back(tensor->info.shape);
    }
  }

  // Whether an operator threw is known only when it ends; a module's forward is a hint until then.
  void on_error(const ErrorEvent& event, const RunState& state, Findings&) override {
    const auto last = last_ops_.find(event.module);
    if (last == last_ops_.end() || state.place_of(event.module) == nullptr) return;
    hints_.insert_or_assign(event.at.thread, failed_in_module(event, last->second, state));
  }

  void on_operator_failed(const OperatorFailedEvent& event, const RunState& state,
                          Findings&) override {
    hints_.erase(event.at.thread);
    failures_.push_back(failed_operator(event, state));
    if (failures_.size() > kMaxPending) failures_.erase(failures_.begin());
  }

 private:
  static constexpr std::size_t kMaxPending = 64;

  /// A step that completes says that the program recovered.
  void decide(Severity severity, Findings& findings) override {
    for (auto& [thread, hint] : hints_) failures_.push_back(std::move(hint));
    hints_.clear();
    for (Finding& failure : failures_) {
      failure.severity = severity;
      if (severity == Severity::kNote) failure.why += "; the program caught it and trained on";
      findings.push_back(std::move(failure));
    }
    failures_.clear();
  }

  std::map<ModuleId, SurveyedOp> last_ops_;
  std::map<std::uint64_t, Finding> hints_;
  Findings failures_;
};
}  // namespace

std::unique_ptr<Check> make_module_operator_failed() {
  return std::make_unique<ModuleOperatorFailed>();
}

}  // namespace ddpscope
