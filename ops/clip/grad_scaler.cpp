#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <c10/util/ScopeExit.h>
#include <ddpscope/ops/grad_scaler.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ops/clip/shards.h"

namespace ddpscope {
inline namespace api0 {
namespace {
// Within these a scale and its inverse are floats of full precision.
constexpr double kLeastScale = 0x1p-126;
constexpr double kLargestScale = 0x1p126;

const void* identity_of(const at::Tensor& parameter) { return parameter.unsafeGetTensorImpl(); }

bool has_gradient(const at::Tensor& parameter) {
  return parameter.defined() && parameter.grad().defined();
}

/// In their places, nothing in those of what stood before: no gradient is to be divided twice.
std::vector<at::Tensor> each_once(at::TensorList parameters) {
  std::vector<at::Tensor> once = parameters.vec();
  std::unordered_set<const void*> seen;
  for (at::Tensor& parameter : once) {
    if (has_gradient(parameter) && !seen.insert(identity_of(parameter)).second)
      parameter = at::Tensor();
  }
  return once;
}
}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  TORCH_CHECK(options.growth_factor > 1 && std::isfinite(options.growth_factor),
              "GradScaler: growth_factor must be above 1 and finite, but is ",
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
  // Other ranks wait in the call that is refused here.
  auto refused = c10::make_scope_exit([&] { clip::begin_shards(max_norm, options); });
  TORCH_CHECK(!options.inverse_scale.defined(),
              "GradScaler: unscale_and_clip_ divides by the scaler's own scale; leave "
              "inverse_scale undefined");
  TORCH_CHECK(
      options.on_non_finite != NonFinite::kThrow && options.on_non_finite != NonFinite::kThrowLater,
      "GradScaler: kThrow and kThrowLater would leave a scale that is too large as it is; "
      "leave out the step, as step() does, and ask `found_inf`");
  Unscaled call{.parameters = {}, .found_inf = {}, .is_deferred = options.defer};
  const std::vector<at::Tensor> once = each_once(parameters);
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (!has_gradient(once[i])) continue;
    const bool is_unscaled = std::ranges::any_of(
        unscaled_, [&](const Unscaled& earlier) { return earlier.holds(once[i]); });
    TORCH_CHECK(!is_unscaled,
                "GradScaler: unscale_and_clip_ was called already in this step for "
                "parameters[",
                i,
                "], so its gradient is unscaled; call update() at the end of each "
                "step");
    call.parameters.push_back(identity_of(once[i]));
  }
  refused.release();
  std::ranges::sort(call.parameters);
  options.inverse_scale = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  ClipResult result = clip_grad_norm_(once, max_norm, options);
  call.found_inf = result.found_inf;
  // The scale is kept where the gradients are: from the second step on nothing is copied.
  scale_ = scale_.to(call.found_inf.device());
  growth_tracker_ = growth_tracker_.to(call.found_inf.device());
  unscaled_.push_back(std::move(call));
  return result;
}

bool GradScaler::Unscaled::holds(const at::Tensor& parameter) const {
  return std::ranges::binary_search(parameters, identity_of(parameter));
}

/// Of which the gradients that it steps with are.
std::vector<const GradScaler::Unscaled*> GradScaler::calls_of(
    const torch::optim::Optimizer& optimizer) const {
  std::vector<const Unscaled*> calls;
  const auto& groups = optimizer.param_groups();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto& parameters = groups[group].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!has_gradient(parameters[i])) continue;
      const auto call = std::ranges::find_if(
          unscaled_, [&](const Unscaled& one) { return one.holds(parameters[i]); });
      TORCH_CHECK(call != unscaled_.end(), "GradScaler: parameter ", i, " of group ", group,
                  " of this optimizer was in no list of unscale_and_clip_ in this step, so its "
                  "gradient still carries the scale; list it, or call unscale_and_clip_ once for "
                  "each optimizer");
      if (std::ranges::find(calls, &*call) == calls.end()) calls.push_back(&*call);
    }
  }
  return calls;
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  TORCH_CHECK(!unscaled_.empty(),
              "GradScaler: step was called before unscale_and_clip_, so gradients still carry the "
              "scale; the order is backward, reduce, unscale_and_clip_, step, update");
  TORCH_CHECK(std::ranges::find(stepped_, &optimizer) == stepped_.end(),
              "GradScaler: step was called already with this optimizer since the last update");
  std::vector<const Unscaled*> calls = calls_of(optimizer);
  if (calls.empty()) {  // without a gradient of its own, as on a rank that has none: as the others
    for (const Unscaled& call : unscaled_) calls.push_back(&call);
  }
  TORCH_CHECK(
      std::ranges::none_of(calls, &Unscaled::is_deferred),
      "GradScaler: step was called after unscale_and_clip_ with `defer`, so gradients still "
      "carry the scale; step with an optimizer that takes `grad_scale` and `found_inf`, then "
      "call update()");
  stepped_.push_back(&optimizer);
  const auto is_bad = [](const Unscaled* call) { return call->found_inf.item<float>() != 0; };
  if (std::ranges::any_of(calls, is_bad)) return false;
  optimizer.step();
  return true;
}

void GradScaler::update() {
  TORCH_CHECK(!unscaled_.empty(),
              "GradScaler: update was called without unscale_and_clip_ since the last update; the "
              "order is backward, reduce, unscale_and_clip_, step, update");
  at::Tensor found_inf = unscaled_.front().found_inf.to(scale_.device());
  for (std::size_t i = 1; i < unscaled_.size(); ++i) {
    found_inf = at::maximum(found_inf, unscaled_[i].found_inf.to(scale_.device()));
  }
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, options_.growth_factor,
                         options_.backoff_factor, options_.growth_interval);
  scale_.clamp_(kLeastScale, kLargestScale);  // times 0 every gradient is finite
  unscaled_.clear();
  stepped_.clear();
}

GradScalerState GradScaler::state() const {
  return {.scale = scale_.item<float>(), .growth_tracker = growth_tracker_.item<int>()};
}

void GradScaler::load(const GradScalerState& state) {
  TORCH_CHECK(state.scale >= kLeastScale && state.scale <= kLargestScale,
              "GradScaler: the scale must be finite and above 0, from 2^-126 to 2^126, but is ",
              state.scale);
  TORCH_CHECK(
      state.growth_tracker >= 0 && state.growth_tracker <= std::numeric_limits<std::int32_t>::max(),
      "GradScaler: growth_tracker must be from 0 to 2^31 - 1, but is ", state.growth_tracker);
  scale_ = at::full({}, state.scale, at::kFloat);
  growth_tracker_ = at::full({}, state.growth_tracker, at::kInt);
  unscaled_.clear();
  stepped_.clear();
}

}  // namespace api0
}  // namespace ddpscope
