#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "checks/check.h"
#include "checks/clip_finder.h"
#include "checks/kept_scale.h"
#include "checks/loss_scale.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr std::size_t kClippedCycles = 2;
constexpr double kSameScale = 1e-3;

bool is_near(double value, double target) { return std::abs(value - target) < kSameScale; }

/// clip-before-unscale; docs/checks/clip-before-unscale.md
class ClipBeforeUnscale final : public Check {
 public:
  void on_op(const OpEvent& event, const RunState&, Findings&) override { scale_.on_op(event); }

  void on_backward(const BackwardEvent& event, const RunState&, Findings&) override {
    pending_.reset();
    copies_ = {};
    finder_.on_backward();
    scale_.on_backward(event);
    kept_.on_backward(scale_);
  }

  void on_gradient_values(const GradientValuesEvent& event, const RunState&, Findings&) override {
    finder_.on_gradient_values(event);
    kept_.on_gradient_values(event);
  }

  void on_gradients_scaled(const GradientsScaledEvent& event, const RunState& state,
                           Findings& findings) override {
    const std::optional<double> scale = scale_divided_by(event, state);
    if (!scale.has_value()) {
      if (auto clip = finder_.find(event, state)) pending_ = clip;
      return;
    }
    if (!pending_.has_value() || !have_same_owners(event.first, pending_->first, state)) return;
    const Clip clip = *std::exchange(pending_, std::nullopt);
    if (std::isfinite(clip.norm)) judge(event, clip, *scale, state, findings);
  }

  /// One by one; what becomes of the copies is not seen.
  void on_scaled_copy(const ScaledCopyEvent& event, const RunState& state,
                      Findings& findings) override {
    if (!pending_.has_value()) return;
    if (copies_.factor != event.factor) copies_ = {.at = event.at, .factor = event.factor};
    if (copies_.gradients++ == 0) copies_.first = event.gradient_of;
    const bool are_half = 2 * copies_.gradients >= gradients_beside(copies_.first, state);
    if (are_half && scale_divided_by(copies_, state).has_value()) {
      on_gradients_scaled(copies_, state, findings);
    }
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    const double scale = scale_.last().value_or(1);
    const bool is_of_it = pending_.has_value() && is_step_of(event, pending_->first, state);
    if (is_of_it && kept_.lasts(*pending_, scale)) {
      findings.push_back(clip_before_unscale(*pending_, scale, "clip, step", state));
    }
    pending_.reset();
    copies_ = {};
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    pending_.reset();
    finder_.on_dropped();
    scale_.clear();
    kept_.on_dropped();
    seen_.clear();
  }

 private:
  /// The loss scale that gradients were freed of. Between two surveys a scale that the program
  /// adapts is known up to a power of two.
  std::optional<double> scale_divided_by(const GradientsScaledEvent& event,
                                         const RunState& state) const {
    const double factor = event.factor.value_or(0);
    const double scale = scale_.last().value_or(1);
    if (event.quotient.has_value() || factor <= 0 || factor == 1 || scale == 1) return {};
    if (2 * event.gradients < gradients_beside(event.first, state)) return {};
    const double powers = std::log2(factor * scale);
    const bool is_adapted = !scale_.now().has_value() && is_near(powers, std::round(powers));
    if (!is_adapted && !is_near(factor * scale, 1)) return {};
    return 1 / factor;
  }

  struct Seen {
    std::int64_t cycle = 0;
    std::vector<double> true_norms;
  };

  void judge(const GradientsScaledEvent& event, const Clip& clip, double scale,
             const RunState& state, Findings& findings) {
    Seen& seen = seen_[clip.first];
    if (seen.cycle == event.at.cycle) return;
    seen.cycle = event.at.cycle;
    if (seen.true_norms.size() >= 64) seen.true_norms.clear();
    seen.true_norms.push_back(clip.norm / scale);
    if (seen.true_norms.size() < kClippedCycles) return;
    if (is_scaled_limit(clip.limit, scale, quantile(seen.true_norms, 0.5))) return;
    findings.push_back(clip_before_unscale(clip, scale, "clip, unscale, step", state));
  }

  std::optional<Clip> pending_;
  GradientsScaledEvent copies_;  ///< since the backward
  LossScale scale_;
  std::map<TensorId, Seen> seen_;
  ClipFinder finder_;
  KeptScale kept_;
};
}  // namespace

std::unique_ptr<Check> make_clip_before_unscale() { return std::make_unique<ClipBeforeUnscale>(); }

}  // namespace ddpscope
