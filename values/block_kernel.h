#pragma once

#include <immintrin.h>

#include <cstdint>

#include "values/block.h"

// The lane of values/lane.h, eight at once. `Wide` holds eight doubles; every function is a member
// of a template over it, so that no two files share one.
namespace ddpscope::values {

template <typename Wide, ScalarKind Kind>
class KernelOf {
 public:
  static BlockValues measure(const void* data, int groups, std::uint64_t block_key) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    KernelOf sums;
    const __m256i key = _mm256_set1_epi64x(static_cast<long long>(block_key));
    for (int group = 0; group < groups; ++group, bytes += kGroupBytes) {
      sums.add_bits(bytes, kKeys.words + group * (kGroupBytes / 8), key);
      sums.add_numbers(bytes, kKeys.words + group * (kGroupElements / 2), key);
    }
    return sums.result();
  }

  static std::uint64_t bits(const void* data, int groups, std::uint64_t block_key) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    KernelOf sums;
    const __m256i key = _mm256_set1_epi64x(static_cast<long long>(block_key));
    for (int group = 0; group < groups; ++group, bytes += kGroupBytes) {
      sums.add_bits(bytes, kKeys.words + group * (kGroupBytes / 8), key);
    }
    return sums.fingerprint();
  }

 private:
  static constexpr bool kIsDouble = Kind == ScalarKind::kDouble;
  static constexpr int kElementBytes = kIsDouble ? 8 : Kind == ScalarKind::kFloat ? 4 : 2;
  static constexpr int kGroupBytes = kElementBytes * kGroupElements;

  static __m256i load(const void* data) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(data));
  }

  void add_bits(const unsigned char* bytes, const std::uint64_t* keys, __m256i key) {
    for (int i = 0; i < kGroupBytes / 32; ++i) {
      const __m256i word = load(bytes + i * 32);
      const __m256i keyed = _mm256_xor_si256(word, _mm256_xor_si256(load(keys + i * 4), key));
      const __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
      products_ = _mm256_add_epi64(products_, product);
      halves_ = _mm256_add_epi32(halves_, word);
    }
  }

  void add_numbers(const unsigned char* bytes, const std::uint64_t* keys, __m256i key) {
    Wide x[kGroupRows];
    for (int row = 0; row < kGroupRows; ++row) {
      const __m256i signs = _mm256_xor_si256(load(keys + row * (kLanes / 2)), key);
      const auto* begin = bytes + row * kLanes * kElementBytes;
      if constexpr (kIsDouble) {
        x[row] =
            Wide::from_halves(take_doubles(load(begin), _mm256_castsi256_si128(signs)),
                              take_doubles(load(begin + 32), _mm256_extracti128_si256(signs, 1)));
      } else {
        x[row] = Wide::from_floats(take_floats(load_floats(begin), signs));
      }
    }
    const Wide sum01 = x[0] + x[1], difference01 = x[0] - x[1];
    const Wide sum23 = x[2] + x[3], difference23 = x[2] - x[3];
    sketch_[0] = sketch_[0] + (sum01 + sum23);
    sketch_[1] = sketch_[1] + (difference01 + difference23);
    sketch_[2] = sketch_[2] + (sum01 - sum23);
    sketch_[3] = sketch_[3] + (difference01 - difference23);
    squares_ = squares_ + (squares_of(x[0], x[1]) + squares_of(x[2], x[3]));
  }

  // The square of a number of 24 bits is exact in double, so the fused sum rounds as the plain one.
  static Wide squares_of(Wide a, Wide b) {
    if constexpr (kIsDouble) {
      return a * a + b * b;
    } else {
      return Wide::multiply_add(a, a, b * b);
    }
  }

  static __m256i load_floats(const unsigned char* bytes) {
    if constexpr (Kind == ScalarKind::kFloat) {
      return load(bytes);
    } else {
      const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
      if constexpr (Kind == ScalarKind::kHalf) {
        return _mm256_castps_si256(_mm256_cvtph_ps(packed));
      } else {
        return _mm256_slli_epi32(_mm256_cvtepu16_epi32(packed), 16);
      }
    }
  }

  __m256 take_floats(__m256i floats, __m256i signs) {
    const __m256i sign_bit = _mm256_set1_epi32(static_cast<int>(0x80000000));
    const __m256i magnitude = _mm256_andnot_si256(sign_bit, floats);
    largest_ = _mm256_max_epu32(largest_, magnitude);
    zeros_ = _mm256_sub_epi32(zeros_, _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256()));
    return _mm256_castsi256_ps(_mm256_xor_si256(floats, _mm256_and_si256(signs, sign_bit)));
  }

  __m256d take_doubles(__m256i doubles, __m128i signs) {
    const __m256i sign_bit = _mm256_set1_epi64x(static_cast<long long>(0x8000000000000000));
    const __m256i magnitude = _mm256_andnot_si256(sign_bit, doubles);
    const __m256i is_larger = _mm256_cmpgt_epi64(magnitude, largest_);
    largest_ = _mm256_blendv_epi8(largest_, magnitude, is_larger);
    zeros_ = _mm256_sub_epi64(zeros_, _mm256_cmpeq_epi64(magnitude, _mm256_setzero_si256()));
    const __m256i flips = _mm256_slli_epi64(_mm256_cvtepu32_epi64(signs), 32);
    return _mm256_castsi256_pd(_mm256_xor_si256(doubles, _mm256_and_si256(flips, sign_bit)));
  }

  std::uint64_t fingerprint() const {
    alignas(32) std::uint64_t products[4], halves[4];
    store(products, products_);
    store(halves, halves_);
    std::uint64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += products[i] + ((halves[i] + (halves[i] >> 32)) << 32);
    return sum;
  }

  BlockValues result() const {
    BlockValues block;
    TensorValues& values = block.values;
    values.sum_of_squares = squares_.sum_of_lanes();
    for (int k = 0; k < kSketchSize; ++k) values.sketch[k] = sketch_[k].sum_of_lanes();
    values.fingerprint = fingerprint();
    alignas(32) std::uint64_t largest[4], zeros[4];
    store(largest, largest_);
    store(zeros, zeros_);
    std::uint64_t highest = 0;
    for (int i = 0; i < 4; ++i) {
      for (const std::uint64_t part : parts_of(largest[i]))
        highest = part > highest ? part : highest;
      for (const std::uint64_t part : parts_of(zeros[i])) {
        values.zero_count += static_cast<std::int64_t>(part);
      }
    }
    block.has_nonfinite = highest >= (kIsDouble ? 0x7FF0000000000000U : 0x7F800000U);
    values.absmax = number_of(highest);
    return block;
  }

  static void store(std::uint64_t* target, __m256i bits) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(target), bits);
  }

  struct Parts {
    std::uint64_t part[2];
    const std::uint64_t* begin() const { return part; }
    const std::uint64_t* end() const { return part + 2; }
  };
  static Parts parts_of(std::uint64_t bits) {
    return kIsDouble ? Parts{{bits, 0}} : Parts{{bits & 0xFFFFFFFF, bits >> 32}};
  }

  static double number_of(std::uint64_t bits) {
    if constexpr (kIsDouble) {
      return __builtin_bit_cast(double, bits);
    } else {
      return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits));
    }
  }

  Wide squares_ = Wide::zero();
  Wide sketch_[kSketchSize] = {Wide::zero(), Wide::zero(), Wide::zero(), Wide::zero()};
  __m256i products_ = _mm256_setzero_si256();  // of the fingerprint
  __m256i halves_ = _mm256_setzero_si256();    // the same
  __m256i largest_ = _mm256_setzero_si256();   // magnitude bits, as float unless kIsDouble
  __m256i zeros_ = _mm256_setzero_si256();
};

template <typename Wide>
inline constexpr BlockKernels kKernelsOf = {
    {KernelOf<Wide, ScalarKind::kHalf>::measure, KernelOf<Wide, ScalarKind::kBFloat16>::measure,
     KernelOf<Wide, ScalarKind::kFloat>::measure, KernelOf<Wide, ScalarKind::kDouble>::measure},
    {KernelOf<Wide, ScalarKind::kHalf>::bits, KernelOf<Wide, ScalarKind::kBFloat16>::bits,
     KernelOf<Wide, ScalarKind::kFloat>::bits, KernelOf<Wide, ScalarKind::kDouble>::bits}};

}  // namespace ddpscope::values
