#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/half_series.h"
#include "checks/half_text.h"
#include "checks/loss_scale.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kNearSteps = 3;
constexpr double kLeastScale = 2;

/// numeric-half-range; docs/checks/numeric-half-range.md
class NumericHalfRange final : public Check {
 public:
  void on_half_output(const HalfOutputEvent& event, const RunState& state,
                      Findings& findings) override {
    Module& module = modules_[event.module];
    if (!module.series.add(event.at.step, event.absmax)) return;
    const std::int64_t near = module.series.steps_near_max();
    const auto forecast = module.series.forecast();
    if (module.told || (near < kNearSteps && !forecast.has_value())) return;
    module.told = true;
    findings.push_back(about_overflow(event.module, module.series, forecast, state));
    if (loss_scale_ > 0) findings.back().facts.push_back({fact::kLossScale, loss_scale_});
  }

  void on_op(const OpEvent& event, const RunState&, Findings&) override { scale_.on_op(event); }

  void on_loss(const LossEvent& event, const RunState&, Findings&) override {
    losses_.add(event.value);
  }

  void on_backward(const BackwardEvent& event, const RunState&, Findings&) override {
    losses_.begin_backward(event.root_gradient);
    scale_.on_backward(event);
    const double scale = scale_.now().value_or(1);
    if (scale >= kLeastScale) loss_scale_ = scale;
  }

  void on_gradient_values(const GradientValuesEvent& event, const RunState&, Findings&) override {
    if (event.dtype != "float16" || event.values.elements == 0) return;
    const double zero_ratio =
        static_cast<double>(event.zero_count) / static_cast<double>(event.values.elements);
    some_left_ |= event.zero_count < event.values.elements;
    parameters_[event.tensor].gradients.add(zero_ratio, event.values.absmax);
  }

  void on_cycle_end(const CycleEndEvent&, const RunState& state, Findings& findings) override {
    if (loss_scale_ > 0) return;
    // Zeros alone are those of dead activations as well: the losses tell these apart.
    const bool none_left = !some_left_ && losses_.are_tiny();
    const bool some_tiny = std::ranges::any_of(
        parameters_, [](const auto& entry) { return entry.second.gradients.are_tiny(); });
    std::vector<const TensorState*> flushed;
    for (auto& [id, parameter] : parameters_) {
      const TensorState* tensor = state.tensor(id);
      if (parameter.told || tensor == nullptr) continue;
      const bool is_whole = (some_tiny || none_left) && parameter.gradients.are_all_zero();
      if (!is_whole && !parameter.gradients.are_flushed()) continue;
      parameter.told = true;
      flushed.push_back(tensor);
    }
    for (const TensorGroup& group : collapse(state, flushed)) {
      const HalfGradients& gradients = parameters_[group.tensors.front()->info.id].gradients;
      findings.push_back(about_underflow(group, gradients, none_left ? losses_.largest() : 0));
    }
  }

  void on_dropped(const DroppedEvent&, const RunState&) override {
    modules_.clear();
    parameters_.clear();
    scale_.clear();
    losses_ = {};
  }

 private:
  struct Module {
    HalfSeries series;
    bool told = false;
  };
  struct Parameter {
    HalfGradients gradients;
    bool told = false;
  };

  std::map<ModuleId, Module> modules_;
  std::map<TensorId, Parameter> parameters_;
  HalfLosses losses_;
  bool some_left_ = false;  ///< of some gradient in float16, at some time
  LossScale scale_;
  double loss_scale_ = 0;  ///< the last one; 0: no loss was scaled
};
}  // namespace

std::unique_ptr<Check> make_numeric_half_range() { return std::make_unique<NumericHalfRange>(); }

}  // namespace ddpscope
