#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks/failure_check.h"
#include "checks/failure_text.h"
#include "checks/run_state.h"

namespace ddpscope {
namespace {
using Shape = std::vector<std::int64_t>;

/// Null where it is not known.
const Shape* shape_of(TensorId id, const RunState& state) {
  if (const OpTrace::Record* made = state.trace().record_of(id)) {
    const auto output = std::ranges::find(made->outputs, id, &OpTrace::Output::id);
    if (output != made->outputs.end()) return &output->shape;
  }
  const TensorState* tensor = state.tensor(id);
  return tensor == nullptr ? nullptr : &tensor->info.shape;
}

/// module-operator-failed; docs/checks/module-operator-failed.md
class ModuleOperatorFailed final : public FailureCheck {
 public:
  void on_op(const OpEvent& event, const RunState& state, Findings&) override {
    if (event.module == 0 || event.in_backward) return;
    SurveyedOp& last = last_ops_[event.module];
    last = {.op = event.op, .step = event.at.step};
    for (const TensorId input : event.inputs) {
      if (const Shape* shape = shape_of(input, state)) last.shapes.push_back(*shape);
    }
  }

  // Whether an operator threw is known only when it ends; a module's forward is a hint until then.
  void on_error(const ErrorEvent& event, const RunState& state, Findings&) override {
    const auto last = last_ops_.find(event.module);
    const bool is_known = last != last_ops_.end() && state.place_of(event.module) != nullptr;
    ThrownIn thrown = thrown_in(event, state);
    if (is_known || !thrown.op.empty()) {
      hint(event.at.thread,
           failed_unseen(event, thrown, is_known ? &last->second : nullptr, state));
    }
    thrown_.insert_or_assign(event.at.thread, std::move(thrown));
  }

  void on_operator_failed(const OperatorFailedEvent& event, const RunState& state,
                          Findings&) override {
    hints_.erase(event.at.thread);
    failures_.push_back({event.at.thread, failed_operator(event, thrown_[event.at.thread], state)});
    if (failures_.size() > kMaxPending) failures_.erase(failures_.begin());
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    training_thread_ = event.at.thread;
    FailureCheck::on_optimizer_step(event, state, findings);
  }
  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    training_thread_ = event.at.thread;
    FailureCheck::on_cycle_end(event, state, findings);
  }
  void on_exit(const ExitEvent& event, const RunState& state, Findings& findings) override {
    is_end_of_program_ = event.at.step == 0;  // no exception ended it
    FailureCheck::on_exit(event, state, findings);
  }

 private:
  static constexpr std::size_t kMaxPending = 64;
  using Place = std::pair<std::string, std::string>;  ///< module and operator

  struct Failure {
    std::uint64_t thread = 0;
    Finding finding;
  };

  /// What the program caught before it ran another operator that throws is not lost.
  void hint(std::uint64_t thread, Finding&& finding) {
    const auto [known, is_new] = hints_.try_emplace(thread, finding);
    if (is_new) return;
    Finding before = std::exchange(known->second, std::move(finding));
    const Finding& now = known->second;
    const bool is_other = before.module_path != now.module_path || before.op != now.op;
    if (is_other && failures_.size() < kMaxPending) {
      failures_.push_back({thread, std::move(before)});
    }
  }

  /// A step that completes says that the program recovered. Not of another thread, as of a worker
  /// that makes batches ahead: what it threw may be thrown again where its batch is asked for.
  void decide(Severity severity, Findings& findings) override {
    for (auto& [thread, hint] : hints_) failures_.push_back({thread, std::move(hint)});
    hints_.clear();
    thrown_.clear();
    std::vector<Failure> held;
    for (Failure& failure : failures_) {
      const bool is_elsewhere = training_thread_ != 0 && failure.thread != training_thread_;
      if (severity == Severity::kNote && is_elsewhere) {
        held.push_back(std::move(failure));
      } else {
        tell(std::move(failure.finding), severity, is_elsewhere, findings);
      }
    }
    failures_ = std::move(held);
  }

  void tell(Finding failure, Severity severity, bool is_elsewhere, Findings& findings) {
    const Place place = {failure.module_path, failure.op};
    const bool is_caught = severity == Severity::kNote || (is_elsewhere && is_end_of_program_);
    const bool is_caught_again = is_end_of_program_ && caught_.contains(place);
    failure.severity = is_caught || is_caught_again ? Severity::kNote : severity;
    if (is_caught) failure.why += "; the program caught it and trained on";
    if (is_caught && caught_.size() < kMaxPending) caught_.insert(place);
    findings.push_back(std::move(failure));
  }

  std::map<ModuleId, SurveyedOp> last_ops_;
  std::map<std::uint64_t, Finding> hints_;
  std::map<std::uint64_t, ThrownIn> thrown_;  ///< by thread, last
  std::vector<Failure> failures_;
  std::set<Place> caught_;  ///< where the program caught one, and trained on
  bool is_end_of_program_ = false;
  std::uint64_t training_thread_ = 0;
};
}  // namespace

std::unique_ptr<Check> make_module_operator_failed() {
  return std::make_unique<ModuleOperatorFailed>();
}

}  // namespace ddpscope
