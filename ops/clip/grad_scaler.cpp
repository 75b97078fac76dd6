#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ddpscope/ops/grad_scaler.h>
#include <torch/optim/optimizer.h>

#include <cmath>
#include <utility>

namespace ddpscope {
inline namespace api0 {

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  TORCH_CHECK(options.growth_factor > 1, "GradScaler: growth_factor must be above 1, but is ",
              options.growth_factor);
  TORCH_CHECK(options.backoff_factor > 0 && options.backoff_factor < 1,
              "GradScaler: backoff_factor must be between 0 and 1, but is ",
              options.backoff_factor);
  TORCH_CHECK(options.growth_interval >= 1,
              "GradScaler: growth_interval must be at least 1, but is ", options.growth_interval);
  load({.scale = options.init_scale});
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return loss.mul(scale_.is_cpu() ? scale_ : scale_.to(loss.device()));
}

ClipResult GradScaler::unscale_and_clip_(at::TensorList parameters, double max_norm,
                                         ClipOptions options) {
  TORCH_CHECK(!found_inf_.defined(),
              "GradScaler: unscale_and_clip_ was called already in this step, so its gradients are "
              "unscaled; call update() at the end of each step");
  TORCH_CHECK(!options.inverse_scale.defined(),
              "GradScaler: unscale_and_clip_ divides by the scaler's own scale; leave "
              "inverse_scale undefined");
  options.inverse_scale = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  ClipResult result = clip_grad_norm_(parameters, max_norm, options);
  found_inf_ = result.found_inf;
  is_deferred_ = options.defer;
  // The scale is kept where the gradients are: from the second step on nothing is copied.
  scale_ = scale_.to(found_inf_.device());
  growth_tracker_ = growth_tracker_.to(found_inf_.device());
  return result;
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  TORCH_CHECK(found_inf_.defined(),
              "GradScaler: step was called before unscale_and_clip_, so gradients still carry the "
              "scale; the order is backward, reduce, unscale_and_clip_, step, update");
  TORCH_CHECK(
      !is_deferred_,
      "GradScaler: step was called after unscale_and_clip_ with `defer`, so gradients still "
      "carry the scale; step with an optimizer that takes `grad_scale` and `found_inf`, then "
      "call update()");
  if (found_inf_.item<float>() != 0) return false;
  optimizer.step();
  return true;
}

void GradScaler::update() {
  TORCH_CHECK(found_inf_.defined(),
              "GradScaler: update was called without unscale_and_clip_ since the last update; the "
              "order is backward, reduce, unscale_and_clip_, step, update");
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth_factor,
                         options_.backoff_factor, options_.growth_interval);
  found_inf_.reset();
}

GradScalerState GradScaler::state() const {
  return {.scale = scale_.item<float>(), .growth_tracker = growth_tracker_.item<int>()};
}

void GradScaler::load(const GradScalerState& state) {
  TORCH_CHECK(std::isfinite(state.scale) && state.scale > 0,
              "GradScaler: the scale must be finite and above 0, but is ", state.scale);
  TORCH_CHECK(state.growth_tracker >= 0, "GradScaler: growth_tracker must not be negative, but is ",
              state.growth_tracker);
  scale_ = at::full({}, state.scale, at::kFloat);
  growth_tracker_ = at::full({}, state.growth_tracker, at::kInt);
  found_inf_.reset();
}

}  // namespace api0
}  // namespace ddpscope
