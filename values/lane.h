#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "values/block.h"

// One lane of one block: the definition of the values. A GPU thread runs it, and the portable path
// runs it eight times.
#ifdef __CUDACC__
#define DDPSCOPE_BOTH __host__ __device__
#else
#define DDPSCOPE_BOTH
#endif

namespace ddpscope::values {

inline constexpr std::uint64_t kLengthKey = 0x9E3779B97F4A7C15;

/// The finaliser of MurmurHash3.
DDPSCOPE_BOTH constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53;
  return x ^ (x >> 33);
}

constexpr KeyTable make_key_table() {
  KeyTable table = {};
  std::uint64_t position = 0;
  for (std::uint64_t& word : table.words) word = mix(++position);
  return table;
}

constexpr SignTable make_sign_table(const KeyTable& keys) {
  SignTable table = {};
  for (int i = 0; i < kBlockElements; ++i) {
    table.of[i] = (keys.words[i / 2] >> (i % 2 == 0 ? 31 : 63) & 1) != 0 ? -1 : 1;
  }
  return table;
}

DDPSCOPE_BOTH constexpr std::uint64_t key_of_block(std::int64_t block) {
  return mix(static_cast<std::uint64_t>(block) + kLengthKey);
}

DDPSCOPE_BOTH inline double double_of_float_bits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// Negative if the lowest bit of `sign` is set.
DDPSCOPE_BOTH inline double with_sign(double magnitude, std::uint64_t sign) {
  std::uint64_t bits;
  memcpy(&bits, &magnitude, sizeof bits);
  bits |= sign << 63;
  memcpy(&magnitude, &bits, sizeof bits);
  return magnitude;
}

template <ScalarKind Kind>
struct Scalar;

template <>
struct Scalar<ScalarKind::kHalf> {
  using Bits = std::uint16_t;
  static constexpr Bits kMagnitude = 0x7FFF;
  static constexpr Bits kInfinity = 0x7C00;
  // The exponent is raised by a product, which is exact, also for subnormal numbers.
  DDPSCOPE_BOTH static double magnitude(Bits bits) {
    return double_of_float_bits(static_cast<std::uint32_t>(bits & kMagnitude) << 13) * 0x1p112;
  }
};

template <>
struct Scalar<ScalarKind::kBFloat16> {
  using Bits = std::uint16_t;
  static constexpr Bits kMagnitude = 0x7FFF;
  static constexpr Bits kInfinity = 0x7F80;
  DDPSCOPE_BOTH static double magnitude(Bits bits) {
    return double_of_float_bits(static_cast<std::uint32_t>(bits & kMagnitude) << 16);
  }
};

template <>
struct Scalar<ScalarKind::kFloat> {
  using Bits = std::uint32_t;
  static constexpr Bits kMagnitude = 0x7FFFFFFF;
  static constexpr Bits kInfinity = 0x7F800000;
  DDPSCOPE_BOTH static double magnitude(Bits bits) {
    return double_of_float_bits(bits & kMagnitude);
  }
};

template <>
struct Scalar<ScalarKind::kDouble> {
  using Bits = std::uint64_t;
  static constexpr Bits kMagnitude = 0x7FFFFFFFFFFFFFFF;
  static constexpr Bits kInfinity = 0x7FF0000000000000;
  DDPSCOPE_BOTH static double magnitude(Bits bits) {
    bits &= kMagnitude;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
};

struct Block {
  const void* data = nullptr;
  int elements = 0;
  std::uint64_t key = 0;
};

template <typename Bits>
DDPSCOPE_BOTH Bits load_bits(const Block& block, int index) {
  if (index >= block.elements) return 0;
#ifdef __CUDA_ARCH__
  return static_cast<const Bits*>(block.data)[index];
#else
  Bits bits;
  memcpy(&bits, static_cast<const unsigned char*>(block.data) + index * sizeof bits, sizeof bits);
  return bits;
#endif
}

template <typename Bits>
DDPSCOPE_BOTH std::uint64_t load_word(const Block& block, int word) {
  constexpr int kElements = 8 / sizeof(Bits);
  std::uint64_t bits = 0;
  for (int i = 0; i < kElements; ++i) {
    const std::uint64_t element = load_bits<Bits>(block, word * kElements + i);
    bits |= element << (i * 8 * static_cast<int>(sizeof(Bits)) % 64);
  }
  return bits;
}

/// NH of UMAC over the two halves, with xor for its sum. Where one half changes, products differ by
/// d * w: d is not 0, w is the other half under a key of its own, both are below 2^32, so one key
/// of 2^32 gives a certain difference. One is 0: a half that equals its key would hide what happens
/// beside it; the plain sum of halves closes that gap for single bits.
DDPSCOPE_BOTH constexpr std::uint64_t hash_word(std::uint64_t word, std::uint64_t key) {
  const std::uint64_t keyed = word ^ key;
  return (keyed & 0xFFFFFFFF) * (keyed >> 32) + ((word + (word >> 32)) << 32);
}

/// The element with its sign of the sketch; 0 where it is absent or not finite.
template <ScalarKind Kind>
DDPSCOPE_BOTH double take_element(const Block& block, int index, std::uint64_t key,
                                  TensorValues& values) {
  using Element = Scalar<Kind>;
  using Bits = typename Element::Bits;
  if (index >= block.elements) return 0;
  const Bits bits = load_bits<Bits>(block, index);
  const Bits magnitude_bits = bits & Element::kMagnitude;
  values.zero_count += magnitude_bits == 0;
  values.inf_count += magnitude_bits == Element::kInfinity;
  values.nan_count += magnitude_bits > Element::kInfinity;
  if (magnitude_bits >= Element::kInfinity) return 0;

  const double magnitude = Element::magnitude(bits);
  if (magnitude > values.absmax) values.absmax = magnitude;
  const std::uint64_t key_sign = (key ^ block.key) >> (index % 2 == 0 ? 31 : 63);
  return with_sign(magnitude, (bits >> (8 * sizeof bits - 1)) ^ key_sign);
}

template <ScalarKind Kind>
DDPSCOPE_BOTH TensorValues measure_lane(const Block& block, int lane, const KeyTable& keys) {
  using Bits = typename Scalar<Kind>::Bits;
  constexpr int kGroupWords = kGroupElements * static_cast<int>(sizeof(Bits)) / 8;
  TensorValues values;
  double rows[kGroupRows] = {}, squares[kGroupRows] = {};
  for (int begin = 0; begin < block.elements; begin += kGroupElements) {
    for (int row = 0; row < kGroupRows; ++row) {
      const int index = begin + row * kLanes + lane;
      const double x = take_element<Kind>(block, index, keys.words[index / 2], values);
      rows[row] += x;
      squares[row] += x * x;
    }
    const int first_word = begin / kGroupElements * kGroupWords;
    for (int word = first_word + lane; word < first_word + kGroupWords; word += kLanes) {
      values.fingerprint += hash_word(load_word<Bits>(block, word), keys.words[word] ^ block.key);
    }
  }
  const double sum01 = rows[0] + rows[1], difference01 = rows[0] - rows[1];
  const double sum23 = rows[2] + rows[3], difference23 = rows[2] - rows[3];
  values.sketch[0] = sum01 + sum23;
  values.sketch[1] = difference01 + difference23;
  values.sketch[2] = sum01 - sum23;
  values.sketch[3] = difference01 - difference23;
  values.sum_of_squares = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  return values;
}

DDPSCOPE_BOTH inline TensorValues merge(const TensorValues& left, const TensorValues& right) {
  TensorValues both;
  both.sum_of_squares = left.sum_of_squares + right.sum_of_squares;
  both.absmax = left.absmax > right.absmax ? left.absmax : right.absmax;
  for (int k = 0; k < kSketchSize; ++k) both.sketch[k] = left.sketch[k] + right.sketch[k];
  both.nan_count = left.nan_count + right.nan_count;
  both.inf_count = left.inf_count + right.inf_count;
  both.zero_count = left.zero_count + right.zero_count;
  both.fingerprint = left.fingerprint + right.fingerprint;
  return both;
}

/// Doubles so large that their sums overflow can leave a NaN, whose bits depend on the machine.
inline TensorValues with_one_nan(TensorValues values) {
  for (double& sketch : values.sketch) {
    if (sketch != sketch) sketch = __builtin_nan("");
  }
  return values;
}

}  // namespace ddpscope::values
