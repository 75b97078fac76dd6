#pragma once

#include <ddpscope/ops/clip_grad.h>

#include <cstdint>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace ddpscope {
inline namespace api0 {

struct GradScalerOptions {
  double init_scale = 65536;            ///< from 2^-126 to 2^126
  double growth_factor = 2;             ///< > 1, finite
  double backoff_factor = 0.5;          ///< in (0, 1)
  std::int64_t growth_interval = 2000;  ///< good steps in a row before the scale grows, >= 1
};

/// What a checkpoint keeps of a scaler.
struct GradScalerState {
  double scale = 65536;
  std::int64_t growth_tracker = 0;  ///< good steps since the scale last changed, below 2^31
};

/// Loss scaling for C++, with unscale, check, norm and clip in one read of the gradients. The scale
/// follows torch.amp.GradScaler: times `backoff_factor` after a step with a NaN or Inf, times
/// `growth_factor` after `growth_interval` steps without.
///
/// Each step: `scale(loss).backward()`, reduction over ranks, `unscale_and_clip_`, `step` for each
/// optimizer, `update`. Another order throws. Several optimizers either share one list of
/// `unscale_and_clip_` or have one each; which of them are left out then is decided by list. One
/// scaler per thread. From the first `unscale_and_clip_` on the scale is where the gradients are.
/// Source: Micikevicius et al., "Mixed Precision Training", ICLR 2018.
class DDPSCOPE_API GradScaler {
 public:
  /// @throws c10::Error if an option is out of its range.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(GradScaler&&) noexcept = default;  // no copies: they would share the scale
  GradScaler& operator=(GradScaler&&) noexcept = default;
  ~GradScaler() = default;

  /// `loss` times the scale, of the shape of `loss` and of its dtype; a loss of no dimensions that
  /// is not Double becomes Float, in which the product does not overflow.
  at::Tensor scale(const at::Tensor& loss) const;

  /// Unscales the gradients of `parameters` and clips them by their norm after that, as
  /// clip_grad_norm_ does with `inverse_scale`. `max_norm` may be infinity. A parameter that is
  /// listed twice, as those of a shared layer, counts once. With `defer` nothing is written, and
  /// the program steps itself.
  /// @throws c10::Error where clip_grad_norm_ does; if `options` hold an `inverse_scale`, `kThrow`
  ///         or `kThrowLater`, as the scale has to learn of each NaN or Inf; if a gradient was
  ///         unscaled already and `update` was not called since. Every gradient is then as it was.
  ClipResult unscale_and_clip_(at::TensorList parameters, double max_norm,
                               ClipOptions options = {});

  /// Calls `optimizer.step()` unless a gradient was not finite in the lists that its parameters
  /// were in; whether it did. Waits for that.
  /// @throws c10::Error before `unscale_and_clip_`, and after one with `defer`; if one of its
  ///         parameters has a gradient that was in no list; if it was called with this optimizer
  ///         since the last `update`. Nothing is changed then.
  bool step(torch::optim::Optimizer& optimizer);

  /// Ends the step: changes the scale, waits for nothing.
  /// @throws c10::Error if `unscale_and_clip_` was not called since the last `update`.
  void update();

  /// Waits for the values.
  GradScalerState state() const;
  /// Goes on from `state`, as after an `update`.
  /// @throws c10::Error if the scale or the tracker is out of its range.
  void load(const GradScalerState& state);

 private:
  /// One call of `unscale_and_clip_`.
  struct Unscaled {
    std::vector<const void*> parameters;  // with a gradient, in order
    at::Tensor found_inf;                 // Float, []
    bool is_deferred = false;

    bool holds(const at::Tensor& parameter) const;
  };
  std::vector<const Unscaled*> calls_of(const torch::optim::Optimizer& optimizer) const;

  GradScalerOptions options_;
  at::Tensor scale_;                  // Float, []
  at::Tensor growth_tracker_;         // Int, []
  std::vector<Unscaled> unscaled_;    // since the last `update`
  std::vector<const void*> stepped_;  // optimizers, since then
};

}  // namespace api0
}  // namespace ddpscope
