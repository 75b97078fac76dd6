#include <fmt/format.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/loader_text.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr int kFirstSteps = 10;
constexpr std::size_t kWaitWindow = 50;
constexpr std::size_t kWaitSteps = 10;
constexpr double kMinShare = 0.3;
constexpr double kMinWaitMs = 5;
constexpr double kMinStallMs = 1000;
constexpr double kStallSteps = 5;
constexpr double kDrawnShare = 0.5;

/// data-loader-wait; docs/checks/data-loader-wait.md
class DataLoaderWait final : public Check {
 public:
  void on_step_wait(const StepWaitEvent& event, const RunState& state,
                    Findings& findings) override {
    Thread& thread = threads_[event.at.thread];
    if (event.drawn_ms.has_value()) {
      thread.drawn_ms += *event.drawn_ms;
      thread.computed_ms += event.computed_ms.value_or(0);
      thread.surveyed_ms += event.wait_ms;
    }
    const bool is_made_up = thread.drawn_ms > kDrawnShare * thread.surveyed_ms;
    if (event.archived || event.step_ms <= 0 || is_made_up) return;
    if (++thread.seen <= kFirstSteps) return;
    if (thread.last.size() >= kWaitSteps) judge_stall(event, thread, state, findings);
    thread.last.push_back({.wait_ms = event.wait_ms, .step_ms = event.step_ms});
    if (thread.last.size() > kWaitWindow) thread.last.pop_front();
    if (++thread.since_judged < kWaitWindow) return;
    thread.since_judged = 0;
    judge_waiting(event, thread, state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { threads_.clear(); }

 private:
  struct Step {
    double wait_ms = 0;
    double step_ms = 0;
  };
  struct Thread {
    int seen = 0;
    std::size_t since_judged = 0;
    double drawn_ms = 0;  ///< of the waits on survey steps, in drawing random numbers
    double computed_ms = 0;
    double surveyed_ms = 0;
    /// The training thread itself makes the batch, in operators.
    bool computes() const { return drawn_ms + computed_ms > kDrawnShare * surveyed_ms; }
    std::deque<Step> last;
  };

  static double median_of(const Thread& thread, double Step::*member) {
    std::vector<double> values;
    for (const Step& step : thread.last) values.push_back(step.*member);
    return median(std::move(values));
  }

  static void judge_waiting(const StepWaitEvent& event, const Thread& thread, const RunState& state,
                            Findings& findings) {
    const Step usual{.wait_ms = median_of(thread, &Step::wait_ms),
                     .step_ms = median_of(thread, &Step::step_ms)};
    if (usual.wait_ms <= kMinWaitMs || usual.wait_ms <= kMinShare * usual.step_ms) return;
    Finding finding = about("waiting", usual, event, state);
    const bool computes = event.loader_threads == 0 && thread.computes();
    finding.what = fmt::format("{:.0f} % of the step ({:.0f} of {:.0f} ms) {}",
                               100 * usual.wait_ms / usual.step_ms, usual.wait_ms, usual.step_ms,
                               computes ? "passes before the forward" : "waits for data");
    explain_loader(event.loader_threads, state, finding);
    if (computes) {
      finding.severity = Severity::kNote;
      finding.why = "most of it in operators of the training thread: " + finding.why;
    }
    findings.push_back(std::move(finding));
  }

  static void judge_stall(const StepWaitEvent& event, const Thread& thread, const RunState& state,
                          Findings& findings) {
    const double step_ms = median_of(thread, &Step::step_ms);
    if (event.loader_threads == 0 || event.wait_ms <= kMinStallMs ||
        event.wait_ms <= kStallSteps * step_ms) {
      return;
    }
    Finding finding =
        about("epoch_stall", {.wait_ms = event.wait_ms, .step_ms = step_ms}, event, state);
    finding.what = fmt::format(
        "{:.1f} s between two steps, as long as {:.0f} steps of {:.0f} ms, with {} alive",
        event.wait_ms / 1000, event.wait_ms / step_ms, step_ms,
        counted(event.loader_threads, "loader thread"));
    finding.confidence = Confidence::kMedium;  // that an epoch ends here is not told
    finding.why =
        "where an epoch ends, the loader joins its threads, which finish what they have begun, and "
        "the next epoch begins with empty queues";
    finding.fixes = {{"make the loader once and call begin() per epoch", kLikely},
                     {"fewer workers(N), or a smaller max_jobs", kLikely}};
    findings.push_back(std::move(finding));
  }

  static Finding about(const char* kind, const Step& usual, const StepWaitEvent& event,
                       const RunState& state) {
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = event.at.step;
    finding.phase = Phase::kForward;
    if (const ModelState* model = state.first_model()) finding.model = model->label;
    finding.facts = {{fact::kKind, std::string(kind)},
                     {fact::kWaitMs, usual.wait_ms},
                     {fact::kStepMs, usual.step_ms},
                     {fact::kWaitRatio, usual.wait_ms / usual.step_ms},
                     {fact::kWorkersCount, std::int64_t{event.loader_threads}}};
    if (state.host().cores > 0) finding.facts.push_back({fact::kCoresCount, state.host().cores});
    return finding;
  }

  std::map<std::uint64_t, Thread> threads_;
};
}  // namespace

std::unique_ptr<Check> make_data_loader_wait() { return std::make_unique<DataLoaderWait>(); }

}  // namespace ddpscope
