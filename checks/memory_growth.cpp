#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/byte_text.h"
#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/memory_text.h"
#include "checks/rising_windows.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr double kMinPeakShare = 0.0005;
constexpr double kMinBytes = 64 * 1024;
constexpr double kLinear = 0.9;
constexpr std::int64_t kGrowthSteps = 64;
constexpr std::int64_t kEnoughSteps = 256;  // for all windows where each step is watched
constexpr auto kEnoughWindows = static_cast<std::int64_t>(RisingWindows::kCount) + 1;
constexpr std::int64_t kGrownRoots = 8;
// Resident memory also grows with what allocators keep for themselves: below this much per step,
// tensors or graphs that are kept must account for a part of it.
constexpr double kMinUnexplained = 4 << 20;
constexpr double kMinExplainedShare = 0.25;

/// memory-growth; docs/checks/memory-growth.md
class MemoryGrowth final : public Check {
 public:
  void on_backward(const BackwardEvent& event, const RunState&, Findings&) override {
    roots_alive_ = event.roots_alive;
    if (!event.trained.has_value() || !event.evaluated.has_value()) return;
    parts_alive_ = std::max(event.trained->alive, event.evaluated->alive);
  }
  void on_kept_outputs(const KeptOutputsEvent& event, const RunState&, Findings&) override {
    kept_ = event;
  }
  void on_convolution_shape(const ConvolutionShapeEvent&, const RunState&, Findings&) override {
    ++new_shapes_;
  }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    const auto bytes = static_cast<double>(state.host().resident_bytes);
    if (bytes <= 0) return;
    peak_ = std::max(peak_, bytes);
    // A window in which convolutions met new shapes is the first of a row, if any.
    if (new_shapes_ > 0) windows_.begin_row();
    if (!windows_.add(bytes, event.at.step)) return;
    ++completed_;
    new_shapes_ = 0;
    if (windows_.are_full() && event.at.cycle > kGrowthSteps) judge(event, state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { windows_.begin_anew(); }

  std::string unfinished(const RunState& state) const override {
    const std::int64_t steps = state.now().step;
    if (steps < kEnoughSteps || completed_ >= kEnoughWindows) return "";
    return fmt::format("{} of {} windows in {} steps: the budget allowed no more", completed_,
                       kEnoughWindows, steps);
  }

 private:
  void judge(const CycleEndEvent& event, const RunState& state, Findings& findings) {
    const Trend growth = windows_.trend();
    if (growth.slope <= std::max(kMinPeakShare * peak_, kMinBytes) || growth.fit <= kLinear) return;
    if (!windows_.go_on()) return;
    if (growth.slope < kMinUnexplained && !explains(growth.slope)) return;
    findings.push_back(about(growth, event, state));
    windows_.begin_anew();
  }

  bool explains(double bytes_per_step) const {
    const auto kept = kept_.outputs.empty() ? 0 : kept_.outputs.front().bytes;
    return std::max(roots_alive_, parts_alive_) >= kGrownRoots ||
           static_cast<double>(kept) >= kMinExplainedShare * bytes_per_step;
  }

  /// `growth`: its slope in bytes per step.
  Finding about(const Trend& growth, const CycleEndEvent& event, const RunState& state) const {
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = event.at.step;
    finding.phase = Phase::kForward;
    place_in(kept_.outputs.empty() ? 0 : kept_.outputs.front().module, state, finding);
    finding.what = fmt::format("resident memory grows {} per step",
                               byte_text(static_cast<std::int64_t>(growth.slope)));
    finding.facts = {{fact::kBytesPerStep, growth.slope},
                     {fact::kWindowsCount, static_cast<std::int64_t>(RisingWindows::kCount)},
                     {fact::kFitRatio, growth.fit}};
    add_limit(growth.slope, event.at.step, state.host(), finding);
    explain(finding);
    finding.fixes = {{"keep loss.detach() or numbers", kLikely},
                     {"detach states that go from step to step", kLikely},
                     {"bound caches", kNeedsDecision}};
    return finding;
  }

  void explain(Finding& finding) const {
    if (roots_alive_ >= kGrownRoots) {
      finding.why = fmt::format("backward roots of {} earlier steps are alive", roots_alive_);
    }
    if (finding.why.empty() && parts_alive_ >= kGrownRoots) {
      finding.why = fmt::format("graphs of {} earlier steps, of those sampled, are alive in part",
                                parts_alive_);
    }
    if (kept_.outputs.empty()) {
      if (finding.why.empty()) {
        finding.why =
            "of the outputs of surveyed operators none was alive after the next step: the program "
            "keeps other memory";
      }
      return;
    }
    const KeptOutputs& largest = kept_.outputs.front();
    finding.op = largest.op;
    finding.why +=
        fmt::format("{}{} of shape {} that {} returned {} alive after the next step",
                    finding.why.empty() ? "" : "; ", counted(largest.count, "tensor"),
                    shape_text(largest.shape), largest.op, largest.count == 1 ? "is" : "are");
    finding.facts.push_back({fact::kSuspectModule, finding.module_path});
    finding.facts.push_back({fact::kSuspectShape, shape_text(largest.shape)});
  }

  double peak_ = 0;
  std::int64_t new_shapes_ = 0;
  std::int64_t roots_alive_ = 0;
  std::int64_t parts_alive_ = 0;  ///< of graphs that are sampled
  RisingWindows windows_;
  std::int64_t completed_ = 0;  ///< windows of the run
  KeptOutputsEvent kept_;
};
}  // namespace

std::unique_ptr<Check> make_memory_growth() { return std::make_unique<MemoryGrowth>(); }

}  // namespace ddpscope
