#include "tests/values/reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace ddpscope::values_test {
namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;
};

Format format_of(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::kHalf:
      return {5, 10};
    case ScalarKind::kBFloat16:
      return {8, 7};
    case ScalarKind::kFloat:
      return {8, 23};
    case ScalarKind::kDouble:
      break;
  }
  return {11, 52};
}

}  // namespace

int bytes_of(ScalarKind kind) {
  const Format format = format_of(kind);
  return (1 + format.exponent_bits + format.fraction_bits) / 8;
}

std::vector<std::uint64_t> special_bits(ScalarKind kind) {
  const Format format = format_of(kind);
  const std::uint64_t one = 1;
  const std::uint64_t infinity = ((one << format.exponent_bits) - 1) << format.fraction_bits;
  const std::uint64_t sign = one << (format.exponent_bits + format.fraction_bits);
  return {infinity | 1 << 5,  // NaN
          sign | infinity | one << (format.fraction_bits - 1),
          infinity,
          sign | infinity,
          0,
          sign,
          1,  // the smallest subnormal number
          sign | ((one << format.fraction_bits) - 1),
          infinity - 1};
}

double number_of(ScalarKind kind, std::uint64_t bits) {
  const Format format = format_of(kind);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << format.fraction_bits) - 1);
  const int top = (1 << format.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> format.fraction_bits) & top;
  const bool is_negative = (bits >> (format.fraction_bits + format.exponent_bits) & 1) != 0;
  const std::uint64_t hidden = exponent > 0 ? std::uint64_t{1} << format.fraction_bits : 0;
  double value = std::ldexp(static_cast<double>(fraction | hidden),
                            std::max(exponent, 1) - top / 2 - format.fraction_bits);
  if (exponent == top) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  }
  return is_negative ? -value : value;
}

Tensor::Tensor(ScalarKind kind, std::int64_t elements, int offset)
    : kind_(kind), elements_(elements), offset_(static_cast<std::size_t>(offset)) {
  storage_.resize(static_cast<std::size_t>(bytes()) + offset_);
}

Tensor& Tensor::fill(unsigned seed) {
  std::mt19937_64 random(seed);
  const Format format = format_of(kind_);
  const std::uint64_t bias = (std::uint64_t{1} << (format.exponent_bits - 1)) - 1;
  for (std::int64_t i = 0; i < elements_; ++i) {
    const std::uint64_t fraction = random() & ((std::uint64_t{1} << format.fraction_bits) - 1);
    const std::uint64_t exponent = bias - 8 + random() % 10;
    const std::uint64_t sign = random() & 1;
    const bool is_zero = random() % 10 == 0;
    set(i,
        is_zero ? 0 : (sign << format.exponent_bits | exponent) << format.fraction_bits | fraction);
  }
  return *this;
}

Tensor& Tensor::set(std::int64_t index, std::uint64_t bits) {
  std::memcpy(begin() + index * bytes_of(kind_), &bits, bytes_of(kind_));
  return *this;
}

std::uint64_t Tensor::bits(std::int64_t index) const {
  std::uint64_t bits = 0;
  std::memcpy(&bits, begin() + index * bytes_of(kind_), bytes_of(kind_));
  return bits;
}

void Tensor::flip(std::int64_t bit) {
  begin()[bit / 8] = static_cast<unsigned char>(begin()[bit / 8] ^ 1 << bit % 8);
}

bool are_same_bits(const TensorValues& left, const TensorValues& right) {
  using Fields = std::array<std::uint64_t, sizeof(TensorValues) / 8>;
  return std::bit_cast<Fields>(left) == std::bit_cast<Fields>(right);
}

Expected naive_values(const Tensor& tensor) {
  Expected expected;
  TensorValues& values = expected.values;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double x = tensor.number(i);
    values.nan_count += std::isnan(x);
    values.inf_count += std::isinf(x);
    values.zero_count += x == 0;
    if (!std::isfinite(x)) continue;
    values.sum_of_squares += x * x;
    values.absmax = std::max(values.absmax, std::abs(x));
    expected.sum_of_magnitudes += std::abs(x);
  }
  return expected;
}

std::vector<Signs> signs_of(std::int64_t elements) {
  std::vector<Signs> signs(static_cast<std::size_t>(elements));
  Tensor unit(ScalarKind::kDouble, elements);
  constexpr std::uint64_t kOne = 0x3FF0000000000000;
  for (std::int64_t i = 0; i < elements; ++i) {
    unit.set(i, kOne);
    const TensorValues values = measure_values(unit.data(), ValuePath::kPortable);
    for (int k = 0; k < kSketchSize; ++k) {
      signs[static_cast<std::size_t>(i)][k] = static_cast<int>(values.sketch[k]);
    }
    unit.set(i, 0);
  }
  return signs;
}

}  // namespace ddpscope::values_test
