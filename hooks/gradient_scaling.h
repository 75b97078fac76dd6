#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <optional>
#include <span>

#include "model/hot_code.h"
#include "model/scale_event.h"

namespace ddpscope {

class Capture;

/// Called before the program multiplies `written` in place, or divides it, by a number or a tensor.
/// Notes it where `written` is the gradient of a leaf, and where a number is divided by another, as
/// a limit is by a norm. From level `values` on.
void see_scaling(bool divides, const at::Tensor& written, const at::Tensor& by) noexcept;
void see_scaling(bool divides, const at::Tensor& written, const at::Scalar& by) noexcept;
void see_scaling(bool divides, at::TensorList written, const at::Tensor& by) noexcept;
void see_scaling(bool divides, at::TensorList written, const at::Scalar& by) noexcept;

/// Called before an operator that is surveyed: tells where it multiplies a gradient into a new
/// tensor, or one that was just cast to another type.
void see_scaled_copy(Capture& capture, const at::RecordFunction& function);

/// Before an operator that is surveyed: the leaf whose gradient it casts to another type; 0: none.
TensorId cast_gradient(Capture& capture, const at::RecordFunction& function);
/// After it.
void see_cast(const at::RecordFunction& function, TensorId leaf);

/// Gradients that are clipped by one call, which no operator of LibTorch shows.
struct WholeClip {
  std::span<const void* const> values;  ///< where those of each gradient begin
  double unscaled_by = 1;               ///< what they are multiplied by first
  double factor = 1;
  std::optional<ClipQuotient> quotient = {};  ///< none: they are only unscaled
};
/// The same for such a call: tells what it does to the gradients of leaves that are known.
void see_clip(const WholeClip& clip) noexcept;

/// Tells what this thread scaled since the last call.
DDPSCOPE_HOT void tell_scaling(Capture& capture);

}  // namespace ddpscope
