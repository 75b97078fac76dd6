#include "ops/batch_norm/passes.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "ops/batch_norm/layout.h"

namespace ddpscope::batch_norm {
namespace {

at::Tensor as_doubles(const at::Tensor& numbers) { return numbers.to(at::kDouble).contiguous(); }

at::Tensor tensor_of(const std::vector<double>& numbers) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(numbers.size())},
                                at::TensorOptions().dtype(at::kDouble));
  std::copy(numbers.begin(), numbers.end(), tensor.mutable_data_ptr<double>());
  return tensor;
}

const double* data_of(const at::Tensor& numbers) { return numbers.const_data_ptr<double>(); }

// Of y and of dx: weight / sqrt(variance + eps).
at::Tensor scale_of(const NormTensors& tensors) {
  const at::Tensor inverse_deviation = tensors.statistics.select(0, 1);
  if (!tensors.weight.defined()) return inverse_deviation.contiguous();
  return as_doubles(tensors.weight) * inverse_deviation;
}

}  // namespace

Moments measure_tensor(const at::Tensor& x) {
  const NormShape shape = shape_of(x);
  ChannelPair measured = measure(shape, x.const_data_ptr());
  return {static_cast<double>(shape.values()), std::move(measured.first),
          std::move(measured.second)};
}

at::Tensor normalize_tensor(const NormTensors& tensors, const at::Tensor& bias) {
  at::Tensor y = at::empty_like(tensors.x);
  const at::Tensor scale = scale_of(tensors);
  const at::Tensor shift = bias.defined() ? as_doubles(bias) : at::zeros_like(scale);
  normalize(shape_of(tensors.x), {.x = tensors.x.const_data_ptr(),
                                  .out = y.mutable_data_ptr(),
                                  .mean = data_of(tensors.statistics),
                                  .scale = data_of(scale),
                                  .shift = data_of(shift)});
  return y;
}

Gradients backward_of(const NormTensors& tensors, const at::Tensor& dy, const Call& call,
                      bool needs_input) {
  const NormShape shape = shape_of(tensors.x);
  Operands operands = {.x = tensors.x.const_data_ptr(),
                       .dy = dy.const_data_ptr(),
                       .mean = data_of(tensors.statistics)};
  const ChannelPair own_sums = reduce(shape, operands);
  const at::Tensor own = at::stack({tensor_of(own_sums.first), tensor_of(own_sums.second)});
  const at::Tensor total = exchange_sums(own, call, Phase::kBackward);
  const at::Tensor inverse_deviation = tensors.statistics.select(0, 1);

  Gradients gradients;
  gradients.weight = inverse_deviation * own.select(0, 1);
  gradients.bias = own.select(0, 0).clone();
  gradients.sums = at::cat({own, total});
  if (!needs_input) return gradients;
  const at::Tensor scale = scale_of(tensors);
  const at::Tensor shift = total.select(0, 0) * call.inverse_count;
  const at::Tensor slope =
      inverse_deviation * inverse_deviation * total.select(0, 1) * call.inverse_count;
  gradients.input = at::empty_like(tensors.x);
  operands.out = gradients.input.mutable_data_ptr();
  operands.scale = data_of(scale);
  operands.shift = data_of(shift);
  operands.slope = data_of(slope);
  grad_input(shape, operands);
  return gradients;
}

}  // namespace ddpscope::batch_norm
