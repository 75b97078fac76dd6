#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "values/tensor_values.h"

namespace ddpscope::values_test {

inline constexpr std::array kKinds = {ScalarKind::kHalf, ScalarKind::kBFloat16, ScalarKind::kFloat,
                                      ScalarKind::kDouble};

/// One NaN, both infinities, both zeros, the smallest subnormals and the largest number, as bits.
std::vector<std::uint64_t> special_bits(ScalarKind kind);

int bytes_of(ScalarKind kind);

/// The number that the bits mean, computed from exponent and fraction.
double number_of(ScalarKind kind, std::uint64_t bits);

/// A tensor with bytes of its own, which begin `offset` bytes after an aligned address.
class Tensor {
 public:
  Tensor(ScalarKind kind, std::int64_t elements, int offset = 0);

  /// Random finite numbers of many magnitudes, a tenth of them zero.
  Tensor& fill(unsigned seed);
  Tensor& set(std::int64_t index, std::uint64_t bits);
  std::uint64_t bits(std::int64_t index) const;
  double number(std::int64_t index) const { return number_of(kind_, bits(index)); }
  void flip(std::int64_t bit);

  TensorData data() const { return {begin(), elements_, kind_}; }
  std::int64_t elements() const { return elements_; }
  ScalarKind kind() const { return kind_; }
  std::int64_t bytes() const { return elements_ * bytes_of(kind_); }
  unsigned char* begin() { return storage_.data() + offset_; }
  const unsigned char* begin() const { return storage_.data() + offset_; }

 private:
  ScalarKind kind_;
  std::int64_t elements_;
  std::size_t offset_;
  std::vector<unsigned char> storage_;
};

/// Unlike ==, true for two NaN.
bool are_same_bits(const TensorValues& left, const TensorValues& right);

struct Expected {
  TensorValues values;  ///< without sketch and fingerprint
  double sum_of_magnitudes = 0;
};
Expected naive_values(const Tensor& tensor);

/// The signs with which each position enters the sketches, learned from tensors with a single one.
using Signs = std::array<int, kSketchSize>;
std::vector<Signs> signs_of(std::int64_t elements);

}  // namespace ddpscope::values_test
