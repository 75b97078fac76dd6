#pragma once

#include <array>
#include <cstddef>

namespace at {
class Tensor;
}

namespace ddpscope {

/// Up to 32 values at equal distances, of a dense CPU tensor; none of any other.
struct ValueSample {
  std::array<double, 32> values{};
  std::size_t count = 0;
};
ValueSample sample_of(const at::Tensor& tensor);

/// The sum of the squares of the sample.
double squares_of(const ValueSample& sample);

/// 2-norm of the change over that of `before`; 1 where that is zero and something changed.
double update_ratio(const ValueSample& before, const ValueSample& after);

}  // namespace ddpscope
