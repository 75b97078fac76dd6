#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kWindow = 100;
constexpr std::int64_t kManyShapes = 20;
constexpr std::size_t kWindows = 3;
constexpr std::ptrdiff_t kTimes = 100;
constexpr double kFalling = 0.75;  ///< of the window before: the shapes begin to repeat
constexpr double kSlower = 1.5;

/// perf-shape-churn; docs/checks/perf-shape-churn.md
class PerfShapeChurn final : public Check {
 public:
  void on_convolution_shape(const ConvolutionShapeEvent& event, const RunState& state,
                            Findings& findings) override {
    if (modules_.empty()) last_of_window_ = event.at.step + kWindow - 1;
    close_windows_before(event.at, state, findings);
    Module& module = modules_[event.module];
    ++module.new_shapes;
    module.op = event.op;
    on_device_ |= event.device != "cpu";
    last_new_ = event.at.step;
  }

  // Not of each step: hooks rest in some, in which shapes are still told.
  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    if (modules_.empty()) return;
    close_windows_before(event.at, state, findings);
    (last_new_ == event.at.step ? with_new_ms_ : other_ms_).push_back(event.wall_ms);
    if (event.at.step == last_of_window_) close_window(event.at, state, findings);
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    modules_.clear();
    with_new_ms_.clear();
    other_ms_.clear();
  }

 private:
  struct Module {
    std::int64_t new_shapes = 0;        ///< in this window
    std::vector<std::int64_t> windows;  ///< in those before
    std::string op;
  };

  void close_windows_before(const Stamp& at, const RunState& state, Findings& findings) {
    while (last_of_window_ < at.step) close_window(at, state, findings);
  }

  void close_window(const Stamp& at, const RunState& state, Findings& findings) {
    last_of_window_ += kWindow;
    judge(at, state, findings);
    // Those of the last windows: where hooks rest, few steps of each are watched.
    for (std::vector<double>* times : {&with_new_ms_, &other_ms_}) {
      if (std::ssize(*times) > kTimes) times->erase(times->begin(), times->end() - kTimes);
    }
  }

  void judge(const Stamp& at, const RunState& state, Findings& findings) {
    const std::pair<const ModuleId, Module>* worst = nullptr;
    for (auto& one : modules_) {
      Module& module = one.second;
      module.windows.push_back(module.new_shapes);
      module.new_shapes = 0;
      if (module.windows.size() > kWindows) module.windows.erase(module.windows.begin());
      if (!churns(module)) continue;
      if (worst == nullptr || module.windows.back() > worst->second.windows.back()) worst = &one;
    }
    if (worst == nullptr || !steps_are_slower()) return;
    findings.push_back(about(worst->first, worst->second, at, state));
  }

  static bool churns(const Module& module) {
    if (module.windows.size() < kWindows) return false;
    if (std::ranges::min(module.windows) <= kManyShapes) return false;
    const auto third = static_cast<double>(module.windows[2]);
    return third >= kFalling * static_cast<double>(module.windows[1]);
  }

  /// Only a device searches; where every step has a new shape there is nothing to compare with.
  bool steps_are_slower() const {
    if (!on_device_) return true;
    if (with_new_ms_.empty()) return false;
    return other_ms_.empty() || median(with_new_ms_) > kSlower * median(other_ms_);
  }

  Finding about(ModuleId id, const Module& module, const Stamp& at, const RunState& state) const {
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.step = at.step;
    finding.phase = Phase::kForward;
    finding.op = module.op;
    place_in(id, state, finding);
    finding.what = fmt::format("{} new input shapes in {} steps with benchmark on",
                               module.windows.back(), kWindow);
    finding.facts = {{fact::kDistinctShapesCount, module.windows.back()},
                     {fact::kWindowSteps, kWindow},
                     {fact::kBenchmark, true}};
    if (!with_new_ms_.empty()) {
      finding.facts.push_back({fact::kNewShapeMs, median(with_new_ms_)});
    }
    if (!other_ms_.empty() && !with_new_ms_.empty()) {
      finding.what += fmt::format("; such steps take {}, others {}", ms_text(median(with_new_ms_)),
                                  ms_text(median(other_ms_)));
      finding.facts.push_back({fact::kOtherMs, median(other_ms_)});
    }
    finding.why = "on a device with cuDNN each new shape starts a search for an algorithm";
    finding.fixes = {{"at::globalContext().setBenchmarkCuDNN(false)", kSafe},
                     {"pad or bucket the inputs to at most 8 shapes", kLikely}};
    if (!on_device_) {
      finding.confidence = Confidence::kMedium;
      finding.evidence_status = EvidenceStatus::kHypothesis;
      finding.why += "; this run computes on the host, which searches nothing";
    }
    return finding;
  }

  std::map<ModuleId, Module> modules_;
  std::int64_t last_of_window_ = 0;  ///< the step that ends it
  std::int64_t last_new_ = 0;        ///< the last step with a new shape
  bool on_device_ = false;
  std::vector<double> with_new_ms_;
  std::vector<double> other_ms_;
};
}  // namespace

std::unique_ptr<Check> make_perf_shape_churn() { return std::make_unique<PerfShapeChurn>(); }

}  // namespace ddpscope
