#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/wait_text.h"
#include "model/fact_keys.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kStartSteps = 10;
constexpr std::size_t kSyncWindow = 50;
constexpr std::int64_t kUsualWaits = 3;
constexpr double kCostly = 0.05;  // of the step

double total_ms(const DeviceWaitsEvent& step) {
  return std::accumulate(step.waits.begin(), step.waits.end(), 0.0,
                         [](double sum, const DeviceWait& wait) { return sum + wait.waited_ms; });
}
std::int64_t total_count(const std::vector<DeviceWait>& waits) {
  return std::accumulate(waits.begin(), waits.end(), std::int64_t{0},
                         [](std::int64_t sum, const DeviceWait& wait) { return sum + wait.count; });
}

/// perf-sync-calls; docs/checks/perf-sync-calls.md
class PerfSyncCalls final : public Check {
 public:
  void on_device_waits(const DeviceWaitsEvent& event, const RunState& state,
                       Findings& findings) override {
    if (++seen_ <= kStartSteps || event.step_ms <= 0) return;
    steps_.push_back(event);
    if (steps_.size() < kSyncWindow) return;
    judge(state, findings);
    steps_.clear();
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { steps_.clear(); }

 private:
  template <class Measure>
  double median_of(const Measure& measure) const {
    std::vector<double> values;
    for (const DeviceWaitsEvent& step : steps_) {
      values.push_back(static_cast<double>(measure(step)));
    }
    return median(std::move(values));
  }

  void judge(const RunState& state, Findings& findings) const {
    const auto count_of = [](const DeviceWaitsEvent& step) { return total_count(step.waits); };
    const auto count = static_cast<std::int64_t>(median_of(count_of));
    if (count <= kUsualWaits) return;
    const double waited_ms = median_of(total_ms);
    const double share = waited_ms / median_of(std::mem_fn(&DeviceWaitsEvent::step_ms));
    const auto usual = std::ranges::find(steps_.rbegin(), steps_.rend(), count, count_of);

    Finding finding;
    finding.severity = share > kCostly ? Severity::kWarning : Severity::kNote;
    finding.step = steps_.back().at.step;
    finding.phase = Phase::kForward;
    if (const ModelState* model = state.first_model()) finding.model = model->label;
    finding.what = fmt::format("{} device waits per step, {} ({:.0f} %)", count, ms_text(waited_ms),
                               100 * share);
    finding.why =
        "each stops the host until the device has done all that it was given, and meanwhile the "
        "device is given nothing";
    finding.facts = {
        {fact::kWaitsCount, count}, {fact::kWaitedMs, waited_ms}, {fact::kShareRatio, share}};
    tell_kinds(usual->waits, state, finding);
    tell_sites(usual->waits, state, finding);
    findings.push_back(std::move(finding));
  }

  std::int64_t seen_ = 0;
  std::vector<DeviceWaitsEvent> steps_;
};
}  // namespace

std::unique_ptr<Check> make_perf_sync_calls() { return std::make_unique<PerfSyncCalls>(); }

}  // namespace ddpscope
