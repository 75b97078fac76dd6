#pragma once

#include <ATen/core/Tensor.h>

namespace ddpscope {

class Capture;

/// Called before the program multiplies `written` in place, or divides it, by a number or a tensor.
/// Notes it where `written` is the gradient of a leaf, and where a number is divided by another, as
/// a limit is by a norm. From level `values` on.
void see_scaling(bool divides, const at::Tensor& written, const at::Tensor& by) noexcept;
void see_scaling(bool divides, const at::Tensor& written, const at::Scalar& by) noexcept;
void see_scaling(bool divides, at::TensorList written, const at::Tensor& by) noexcept;
void see_scaling(bool divides, at::TensorList written, const at::Scalar& by) noexcept;

/// Tells what this thread scaled since the last call.
void tell_scaling(Capture& capture);

}  // namespace ddpscope
