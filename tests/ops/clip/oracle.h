#pragma once

#include <ddpscope/ops.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#undef CHECK
#include "tests/support/catch.h"

namespace ddpscope::test {

using Tensors = std::vector<at::Tensor>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A parameter of the dtype and shape of its gradient.
inline at::Tensor with_gradient(const at::Tensor& gradient) {
  at::Tensor parameter = torch::empty(gradient.sizes(), gradient.options().layout(at::kStrided));
  parameter.mutable_grad() = gradient;
  return parameter;
}

inline Tensors with_gradients(const Tensors& gradients) {
  Tensors parameters;
  for (const auto& gradient : gradients) parameters.push_back(with_gradient(gradient));
  return parameters;
}

inline Tensors cloned(const Tensors& tensors) {
  Tensors clones;
  for (const auto& tensor : tensors) clones.push_back(tensor.clone());
  return clones;
}

/// Equal down to the last bit, NaN and negative zero included.
inline bool same_bits(const at::Tensor& left, const at::Tensor& right) {
  const auto a = left.contiguous(), b = right.contiguous();
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

inline bool same_bits(const Tensors& left, const Tensors& right) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!same_bits(left[i], right[i])) return false;
  }
  return true;
}

/// The norm of all elements, in long double: none of the code under test.
inline double exact_norm(const Tensors& gradients, double p) {
  long double sum = p == -kInfinity ? kInfinity : 0;
  for (const auto& gradient : gradients) {
    const auto magnitudes = gradient.to_dense().contiguous().flatten().to(
        gradient.is_complex() ? at::kComplexDouble : at::kDouble);
    const auto flat = magnitudes.abs().contiguous();
    const double* values = flat.const_data_ptr<double>();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const long double x = values[i];
      if (p == kInfinity) {
        sum = std::max(sum, x);
      } else if (p == -kInfinity) {
        sum = std::min(sum, x);
      } else {
        sum += std::pow(x, static_cast<long double>(p));
      }
    }
  }
  if (std::isinf(p)) return static_cast<double>(sum);
  return static_cast<double>(std::pow(sum, 1 / static_cast<long double>(p)));
}

/// Calls the clip and gives back what it threw; "" if it threw nothing.
inline std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ddpscope::test
