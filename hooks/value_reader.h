#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "model/hot_code.h"
#include "model/reduction_event.h"
#include "model/value_event.h"
#include "values/tensor_values.h"

namespace ddpscope {

/// The elements of a floating or complex tensor where they lie, on whichever device; none with
/// gaps.
std::optional<TensorData> dense_data(const at::Tensor& tensor);
/// The same, of a tensor on the CPU.
std::optional<TensorData> readable_data(const at::Tensor& tensor);

/// What ranks compare of one pass; no squares where an element is not finite.
GradientSketch sketch_in(const TensorValues& values);

/// Of nothing (`elements` 0) where the tensor cannot be read. Runs no operator.
ValueRange range_of(const at::Tensor& tensor);

void add_to(ValueRange& sum, const ValueRange& part);

/// Visits the elements in the order of memory, as far as the tensor can be read.
void for_each_element(const at::Tensor& tensor, const std::function<void(double)>& visit);

/// Of a tensor with or without gaps; `min` is the smallest element, NaN aside. With gaps each
/// infinity counts once.
struct Numbers {
  ValueRange range;
  std::optional<double> min = {};
};
Numbers numbers_in(const at::Tensor& tensor);

/// The number in a tensor of one element; none where it cannot be read.
DDPSCOPE_HOT std::optional<double> number_in(const at::Tensor& tensor);

}  // namespace ddpscope
