#include <fmt/format.h>

#include <memory>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr double kToldShare = 0.001;

/// tool-ring-evicted; docs/checks/tool-ring-evicted.md
class ToolRingEvicted final : public Check {
 public:
  void on_stale_saved(const StaleSavedEvent& event, const RunState& state,
                      Findings& findings) override {
    if (event.writer.has_value() || !event.writer_evicted) return;
    const TensorState* owner = owner_of(event.tensor, state);
    const bool of_buffer = owner != nullptr && owner->is_buffer;
    Finding finding;
    finding.severity = Severity::kNote;
    finding.step = event.at.step;
    finding.subject = "history";
    finding.what = fmt::format(
        "the writer of {} is older than the history of {} writes",
        owner != nullptr ? tensor_path(*owner) : "a saved tensor " + shape_text(event.tensor.shape),
        event.history);
    finding.why = "a finding had to leave its second site empty";
    finding.fixes = {{fmt::format("DDPSCOPE=history={}", event.history * 4), kSafe}};
    finding.facts = {{fact::kRing, "writes"},
                     {fact::kCapacityCount, event.history},
                     {fact::kAgeCount, event.age_writes},
                     {fact::kAffectedIds,
                      as_fact({of_buffer ? "norm-buffer-overwritten" : "autograd-inplace-saved"})}};
    findings.push_back(std::move(finding));
  }

  void on_dropped(const DroppedEvent& event, const RunState& state) override {
    dropped_ += event.count;
    if (first_step_ < 0) first_step_ = state.now().step;
  }

  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    const auto seen = static_cast<double>(state.events_count());
    if (static_cast<double>(dropped_) <= kToldShare * seen) return;
    Finding finding;
    finding.severity = Severity::kNote;
    finding.phase = Phase::kExit;
    finding.step = first_step_;
    finding.subject = "event queue";
    finding.what = fmt::format("{} of {} events were dropped, the first in step {}", dropped_,
                               dropped_ + state.events_count(), first_step_);
    finding.why =
        "the training threads told more than the worker thread could judge; what counts over "
        "several steps began anew each time";
    finding.fixes = {{"leave the worker thread a core of its own", kLikely},
                     {"DDPSCOPE=level=watch records less", kLikely}};
    finding.facts = {{fact::kRing, "events"}, {fact::kDroppedCount, dropped_}};
    findings.push_back(std::move(finding));
  }

 private:
  std::int64_t dropped_ = 0;
  std::int64_t first_step_ = -1;
};
}  // namespace

std::unique_ptr<Check> make_tool_ring_evicted() { return std::make_unique<ToolRingEvicted>(); }

}  // namespace ddpscope
