#pragma once

#include <ATen/record_function.h>

#include <optional>
#include <vector>

#include "model/error_event.h"

namespace ddpscope {

class Capture;

template <class Values, class Visit>
void for_each_tensor(const Values& values, Visit&& visit) {
  const auto visit_defined = [&](const at::Tensor& tensor) {
    if (tensor.defined()) visit(tensor);
  };
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      visit_defined(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) visit_defined(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const auto& tensor : value.toOptionalTensorVector()) {
        if (tensor.has_value()) visit_defined(*tensor);
      }
    }
  }
}

/// A multiplication by a number that is zero: a scalar, or a 0-dimensional tensor in host memory
/// that does not require grad. Reads no memory of a device.
bool multiplies_by_zero(const at::RecordFunction& function);

/// The numbers among the arguments that are not integers, by themselves or in such a tensor.
/// Inputs are there when an operator begins, and may be gone when it ends.
std::vector<double> constants_of(const at::RecordFunction& function);

/// A floating number, by itself or in such a tensor.
std::optional<double> number_of(const c10::IValue& value);

/// What a multiplication or division by such a number, or by an integer, multiplies with; else 1.
double factor_of(const at::RecordFunction& function);

/// The dimension over which a softmax or log-softmax normalises, from 0.
std::optional<std::int64_t> softmax_dim(const at::RecordFunction& function);

/// The number that an operator such as `item()` returned.
std::optional<double> number_read(const at::RecordFunction& function);

/// The inputs of an operator that may fail. Weak: an operator may free its inputs before it throws.
using WeakInputs = std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>>;
WeakInputs weak_inputs(const at::RecordFunction& function);

/// What an operator of lists writes that returns nothing.
WeakInputs written_by_call(const at::RecordFunction& function);

/// Those that are still alive, as they are now.
std::vector<FailedInput> describe_inputs(Capture& capture, const WeakInputs& inputs);

}  // namespace ddpscope
