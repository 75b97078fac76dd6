#include "hooks/value_sample.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

#include "hooks/tensor_registry.h"

namespace ddpscope {
namespace {
template <class Value>
void take(const void* data, std::int64_t stride, double* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<double>(static_cast<const Value*>(data)[i * stride]);
  }
}
}  // namespace

ValueSample sample_of(const at::Tensor& tensor) {
  ValueSample sample;
  const auto elements = static_cast<std::size_t>(tensor.numel());
  if (elements == 0 || !is_readable(tensor)) return sample;
  sample.count = std::min(elements, sample.values.size());
  const auto stride = static_cast<std::int64_t>(elements / sample.count);
  const void* data = tensor.unsafeGetTensorImpl()->data();
  switch (tensor.scalar_type()) {
    case at::kFloat:
      take<float>(data, stride, sample.values.data(), sample.count);
      break;
    case at::kDouble:
      take<double>(data, stride, sample.values.data(), sample.count);
      break;
    case at::kHalf:
      take<c10::Half>(data, stride, sample.values.data(), sample.count);
      break;
    case at::kBFloat16:
      take<c10::BFloat16>(data, stride, sample.values.data(), sample.count);
      break;
    default:
      sample.count = 0;
  }
  return sample;
}

double squares_of(const ValueSample& sample) {
  double squares = 0;
  for (std::size_t i = 0; i < sample.count; ++i) squares += sample.values[i] * sample.values[i];
  return squares;
}

double update_ratio(const ValueSample& before, const ValueSample& after) {
  if (before.count != after.count) return 0;
  double change = 0;
  for (std::size_t i = 0; i < before.count; ++i) {
    change += std::pow(after.values[i] - before.values[i], 2);
  }
  if (change == 0) return 0;
  const double size = squares_of(before);
  return size > 0 ? std::sqrt(change / size) : 1;
}

}  // namespace ddpscope
