#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "checks/archive_log.h"
#include "checks/check.h"
#include "checks/fed_leaves.h"
#include "checks/load_text.h"
#include "checks/run_state.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
/// checkpoint-load; docs/checks/checkpoint-load.md
class CheckpointLoad final : public Check {
 public:
  void on_archive_tensor(const ArchiveTensorEvent& event, const RunState&, Findings&) override {
    log_.add(event);
  }

  // A load is complete when the program goes on to compute, and at the latest when it ends.
  void on_op(const OpEvent& event, const RunState& state, Findings& findings) override {
    if (event.grad_mode) judge(state, findings);
  }
  void on_backward(const BackwardEvent&, const RunState& state, Findings& findings) override {
    judge(state, findings);
  }
  void on_backward_end(const BackwardEndEvent&, const RunState& state, Findings&) override {
    fed_.see(state);
  }
  void on_error(const ErrorEvent&, const RunState& state, Findings& findings) override {
    judge(state, findings);
  }
  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    judge(state, findings);
  }

 private:
  void judge(const RunState& state, Findings& findings) {
    if (log_.empty()) return;
    const std::vector<ArchiveVisit> visits = log_.visits(state);
    for (const ArchiveVisit& visit : visits) {
      // What another archive held was looked for in this one first.
      const bool is_attempt =
          visit.read.empty() && std::ranges::any_of(visits, [&visit](const ArchiveVisit& other) {
            return other.model == visit.model && !other.read.empty();
          });
      const bool is_load = !visit.read.empty() || !visit.missing.empty();
      if (is_load && !is_attempt) judge_load(visit, state, findings);
      if (!visit.written.empty()) judge_save(visit, state, findings);
    }
    log_.clear();
  }

  static void judge_load(const ArchiveVisit& visit, const RunState& state, Findings& findings) {
    std::vector<const ArchiveTensorEvent*> reshaped;
    std::set<TensorId> changed;
    for (const ArchiveTensorEvent* event : visit.read) {
      const bool other_form =
          event->now.shape != event->old_shape || event->now.dtype != event->old_dtype;
      if (other_form) reshaped.push_back(event);
      if (event->changed) changed.insert(event->tensor);
    }
    if (!reshaped.empty()) findings.push_back(load_reshaped(visit, reshaped, state));
    const bool few = changed.size() * 2 < expected_by(visit, state).size();
    if (few && !state.declared(visit.model->id, "", "intended")) {
      findings.push_back(load_changed_few(visit, changed, state));
    }
  }

  void judge_save(const ArchiveVisit& visit, const RunState& state, Findings& findings) const {
    std::set<TensorId> written;
    for (const ArchiveTensorEvent* event : visit.written) written.insert(event->tensor);
    auto loose = state.loose_leaves();
    std::erase_if(loose, [this](const TensorState* leaf) { return fed_.contains(*leaf); });
    bool is_whole = true;
    for (const RegisteredTensor& registered : visit.model->tensors) {
      is_whole = is_whole && written.contains(registered.tensor.id);
    }
    if (is_whole && !loose.empty()) findings.push_back(save_incomplete(visit, loose));
    std::vector<const TensorState*> unreadable;
    for (const TensorId id : written) {
      const TensorState* tensor = state.tensor(id);
      if (!unreadable_part(tensor_path(*tensor)).empty()) unreadable.push_back(tensor);
    }
    for (const TensorGroup& group : collapse(state, unreadable)) {
      findings.push_back(save_unreadable(visit, group));
    }
  }

  ArchiveLog log_;
  FedLeaves fed_;
};
}  // namespace

std::unique_ptr<Check> make_checkpoint_load() { return std::make_unique<CheckpointLoad>(); }

}  // namespace ddpscope
