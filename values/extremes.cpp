#include "values/extremes.h"

#include <cstring>

#include "values/float_mode.h"
#include "values/kernels.h"
#include "values/lane.h"

namespace ddpscope {
namespace {
using namespace values;

template <ScalarKind Kind>
Extremes count_each(const TensorData& tensor) {
  using Element = Scalar<Kind>;
  typename Element::Bits bits;
  typename Element::Bits largest = 0;
  Extremes result;
  const auto* at = static_cast<const unsigned char*>(tensor.data);
  for (std::int64_t i = 0; i < tensor.elements; ++i, at += sizeof bits) {
    std::memcpy(&bits, at, sizeof bits);
    bits &= Element::kMagnitude;
    result.inf_count += bits == Element::kInfinity;
    result.nan_count += bits > Element::kInfinity;
    if (bits < Element::kInfinity && bits > largest) largest = bits;
  }
  result.absmax = Element::magnitude(largest);
  return result;
}

template <ScalarKind Kind>
Extremes extremes_of(const TensorData& tensor, LargestKernel kernel) {
  using Element = Scalar<Kind>;
  const std::uint64_t largest = kernel(tensor.data, tensor.elements);
  if (largest >= Element::kInfinity) return count_each<Kind>(tensor);
  return {.absmax = Element::magnitude(static_cast<typename Element::Bits>(largest))};
}
}  // namespace

Extremes measure_extremes(const TensorData& tensor, ValuePath path) {
  const PlainFloatMode plain;
  const LargestKernel kernel = largest_kernels_of(path).by_kind[static_cast<int>(tensor.kind)];
  switch (tensor.kind) {
    case ScalarKind::kHalf:
      return extremes_of<ScalarKind::kHalf>(tensor, kernel);
    case ScalarKind::kBFloat16:
      return extremes_of<ScalarKind::kBFloat16>(tensor, kernel);
    case ScalarKind::kFloat:
      return extremes_of<ScalarKind::kFloat>(tensor, kernel);
    case ScalarKind::kDouble:
      break;
  }
  return extremes_of<ScalarKind::kDouble>(tensor, kernel);
}

}  // namespace ddpscope
