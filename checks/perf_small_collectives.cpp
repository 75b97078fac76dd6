#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/communication.h"
#include "checks/run_state.h"
#include "checks/traffic_text.h"

namespace ddpscope {
namespace {
constexpr std::size_t kTrafficCycles = 64;
constexpr std::int64_t kManyAveraged = 32;
constexpr double kParametersPerCall = 4;
constexpr double kSmallCallBytes = 64 << 10;
constexpr double kWorthOverlapBytes = 1 << 20;  // bytes
constexpr double kSentAgain = 1.2;
constexpr double kHardlyOverlapped = 0.05;
constexpr double kCostlyWait = 0.2;  // of the step

/// perf-small-collectives; docs/checks/perf-small-collectives.md
class PerfSmallCollectives final : public Check {
 public:
  void on_collective(const CollectiveEvent& event, const RunState& state, Findings&) override {
    traffic_.on(event, state);
  }
  void on_collective_end(const CollectiveEndEvent& event, const RunState&, Findings&) override {
    traffic_.on(event);
  }
  void on_backward(const BackwardEvent&, const RunState&, Findings&) override {
    traffic_.backward_runs(true);
  }
  void on_backward_end(const BackwardEndEvent&, const RunState&, Findings&) override {
    traffic_.backward_runs(false);
  }
  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings&) override {
    traffic_.on(event, state);
  }
  void on_training_op(const TrainingOpEvent& event, const RunState& state, Findings&) override {
    const TensorState* statistics = state.tensor(event.statistics);
    if (statistics == nullptr || statistics->registrations.empty()) return;
    norms_.insert(statistics->registrations.front().module_path);
  }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    cycles_.push_back(traffic_.on(event));
    if (cycles_.size() < kTrafficCycles) return;
    if (!told_ && state.world_size() > 1) judge(state, findings);
    cycles_.clear();
  }
  void on_dropped(const DroppedEvent&, const RunState&) override { cycles_.clear(); }

 private:
  /// Buffers that each cycle broadcasts, and no operator was seen to write.
  std::int64_t constant_buffers(const RunState& state) const {
    return std::ranges::count_if(cycles_.front().broadcast, [&](TensorId id) {
      const TensorState* tensor = state.tensor(id);
      if (tensor == nullptr || tensor->registrations.empty()) return false;
      const bool is_written =
          !tensor->written_by.empty() || norms_.contains(tensor->registrations.front().module_path);
      return !is_written && std::ranges::all_of(cycles_, [id](const CycleTraffic& cycle) {
        return cycle.broadcast.contains(id);
      });
    });
  }

  static std::int64_t parameters(const RunState& state) {
    return std::ranges::count_if(state.tensors().all(), [&](const auto& entry) {
      return entry.second.gradients > 0 && state.eligible(entry.second);
    });
  }

  void judge(const RunState& state, Findings& findings) {
    if (std::ranges::any_of(cycles_, &CycleTraffic::sharded)) return;
    const std::int64_t buffers = constant_buffers(state);
    SmallCollectives found{.usual = usual_of(cycles_), .constant_buffers = buffers};
    const UsualTraffic& usual = found.usual;
    const std::int64_t count = parameters(state);
    if (count >= kManyAveraged && usual.median_bytes < kSmallCallBytes &&
        usual.calls > static_cast<double>(count) / kParametersPerCall) {
      found.causes.emplace_back("tiny");
    }
    const bool searches = std::ranges::any_of(cycles_, &CycleTraffic::searches);
    if (usual.bytes_ratio > kSentAgain && usual.summed_backwards > 1 && !searches) {
      found.causes.emplace_back("every_micro_batch");
    }
    if (buffers > 0) found.causes.emplace_back("constant_buffers");
    const bool is_large = usual.bytes >= kWorthOverlapBytes;
    if (usual.calls > 0 && usual.overlap_ratio < kHardlyOverlapped &&
        usual.wait_ratio > kCostlyWait && (is_large || count >= kManyAveraged)) {
      found.causes.emplace_back("no_overlap");
      found.is_costly = is_large;
    }
    if (found.causes.empty()) return;
    told_ = true;
    findings.push_back(small_collectives(found, state));
  }

  Communication traffic_;
  std::set<std::string> norms_;
  std::vector<CycleTraffic> cycles_;
  bool told_ = false;
};
}  // namespace

std::unique_ptr<Check> make_perf_small_collectives() {
  return std::make_unique<PerfSmallCollectives>();
}

}  // namespace ddpscope
