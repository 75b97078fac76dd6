#include "ops/batch_norm/passes.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "ops/batch_norm/layout.h"

// Numbers per channel are computed in loops: an operator of LibTorch takes longer than some
// thousand values of a layer.
namespace ddpscope::batch_norm {
namespace {

using Doubles = std::vector<double>;

const double* data_of(const at::Tensor& numbers) { return numbers.const_data_ptr<double>(); }

at::Tensor tensor_of(std::initializer_list<const Doubles*> rows) {
  const auto channels = static_cast<std::int64_t>((*rows.begin())->size());
  const at::TensorOptions options = at::TensorOptions().dtype(at::kDouble);
  at::Tensor tensor = rows.size() == 1
                          ? at::empty({channels}, options)
                          : at::empty({static_cast<std::int64_t>(rows.size()), channels}, options);
  double* to = tensor.mutable_data_ptr<double>();
  for (const Doubles* row : rows) to = std::copy(row->begin(), row->end(), to);
  return tensor;
}

/// 1 / sqrt(variance + eps) of each channel.
const double* inverse_deviation_of(const NormTensors& tensors) {
  return data_of(tensors.statistics) + tensors.statistics.size(1);
}

// Of y and of dx: weight / sqrt(variance + eps).
Doubles scale_of(const NormTensors& tensors) {
  const double* const inverse = inverse_deviation_of(tensors);
  Doubles scale(inverse, inverse + tensors.statistics.size(1));
  if (!tensors.weight.defined()) return scale;
  const Doubles weight = in_double(tensors.weight);
  for (std::size_t c = 0; c < scale.size(); ++c) scale[c] *= weight[c];
  return scale;
}

}  // namespace

std::vector<double> in_double(const at::Tensor& numbers) {
  const at::Tensor read = dense(numbers);
  Doubles wide;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, read.scalar_type(), "sync_batch_norm",
                                  [&] {
                                    const auto* const begin = read.const_data_ptr<scalar_t>();
                                    wide.assign(begin, begin + read.numel());
                                  });
  return wide;
}

Moments measure_tensor(const at::Tensor& x) {
  const NormShape shape = shape_of(x);
  ChannelPair measured = measure(shape, x.const_data_ptr());
  return {static_cast<double>(shape.values()), std::move(measured.first),
          std::move(measured.second)};
}

at::Tensor normalize_tensor(const NormTensors& tensors, const at::Tensor& bias) {
  at::Tensor y = at::empty_like(tensors.x);
  const Doubles scale = scale_of(tensors);
  const Doubles shift = bias.defined() ? in_double(bias) : Doubles(scale.size());
  normalize(shape_of(tensors.x), tensors.x.const_data_ptr(),
            {.mean = data_of(tensors.statistics), .scale = scale.data(), .shift = shift.data()},
            y.mutable_data_ptr());
  return y;
}

Gradients backward_of(const NormTensors& tensors, const at::Tensor& dy, const Call& call,
                      bool needs_input) {
  const NormShape shape = shape_of(tensors.x);
  const void* const x = tensors.x.const_data_ptr();
  const double* const mean = data_of(tensors.statistics);
  const ChannelPair own_sums = reduce(shape, x, dy.const_data_ptr(), mean);
  const at::Tensor own = tensor_of({&own_sums.first, &own_sums.second});
  const at::Tensor total = exchange_sums(own, call, Phase::kBackward);
  const double* const inverse = inverse_deviation_of(tensors);
  const std::size_t channels = own_sums.first.size();
  Doubles of_weight = own_sums.second;
  for (std::size_t c = 0; c < channels; ++c) of_weight[c] *= inverse[c];

  Gradients gradients;
  gradients.weight = tensor_of({&of_weight});
  gradients.bias = tensor_of({&own_sums.first});
  gradients.sums = at::empty({4, static_cast<std::int64_t>(channels)}, own.options());
  double* const sums = gradients.sums.mutable_data_ptr<double>();
  std::copy_n(data_of(total), 2 * channels, std::copy_n(data_of(own), 2 * channels, sums));
  if (!needs_input) return gradients;
  const Doubles scale = scale_of(tensors);
  Doubles shift(data_of(total), data_of(total) + channels), slope(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    shift[c] *= call.inverse_count;
    slope[c] = inverse[c] * inverse[c] * data_of(total)[channels + c] * call.inverse_count;
  }
  gradients.input = at::empty_like(tensors.x);
  grad_input(shape, x, dy.const_data_ptr(),
             {.mean = mean, .scale = scale.data(), .shift = shift.data(), .slope = slope.data()},
             gradients.input.mutable_data_ptr());
  return gradients;
}

}  // namespace ddpscope::batch_norm
