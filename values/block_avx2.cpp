// Compiled for AVX2, FMA and F16C; nothing that it includes may define a shared inline function.
#include "values/block_kernel.h"
#include "values/largest_kernel.h"

namespace ddpscope::values {
namespace {

struct Avx2 {
  using Integers = __m256i;
  struct Doubles {
    __m256d low, high;
  };
  static constexpr int kFloats = 8;  // that `widen_...` makes

  static Integers load(const void* data) {
    return _mm256_loadu_si256(static_cast<const Integers*>(data));
  }
  static void store(void* target, Integers a) {
    _mm256_store_si256(static_cast<Integers*>(target), a);
  }
  static Integers broadcast(std::uint64_t word) {
    return _mm256_set1_epi64x(static_cast<long long>(word));
  }
  static Integers exclusive_or(Integers a, Integers b, Integers c) {
    return _mm256_xor_si256(a, _mm256_xor_si256(b, c));
  }
  static Integers add64(Integers a, Integers b) { return _mm256_add_epi64(a, b); }
  static Integers add32(Integers a, Integers b) { return _mm256_add_epi32(a, b); }
  static Integers product_of_halves(Integers a) {
    return _mm256_mul_epu32(a, _mm256_srli_epi64(a, 32));
  }

  template <int Bytes>
  static Integers magnitude(Integers a) {
    if constexpr (Bytes == 2) return _mm256_and_si256(a, _mm256_set1_epi16(0x7FFF));
    if constexpr (Bytes == 4) return _mm256_and_si256(a, _mm256_set1_epi32(0x7FFFFFFF));
    if constexpr (Bytes == 8) return _mm256_and_si256(a, _mm256_set1_epi64x(0x7FFFFFFFFFFFFFFF));
  }
  template <int Bytes>
  static Integers larger(Integers a, Integers b) {
    if constexpr (Bytes == 2) return _mm256_max_epu16(a, b);
    if constexpr (Bytes == 4) return _mm256_max_epu32(a, b);
    if constexpr (Bytes == 8) return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a));
  }
  template <int Bytes>
  static std::uint64_t largest_of(Integers a) {
    if constexpr (Bytes == 8) {
      alignas(32) std::uint64_t words[4];
      store(words, a);
      const std::uint64_t left = words[0] > words[1] ? words[0] : words[1];
      const std::uint64_t right = words[2] > words[3] ? words[2] : words[3];
      return left > right ? left : right;
    } else {
      a = larger<Bytes>(a, _mm256_permute4x64_epi64(a, 0x4E));
      a = larger<Bytes>(a, _mm256_shuffle_epi32(a, 0x4E));
      a = larger<Bytes>(a, _mm256_shuffle_epi32(a, 0xB1));
      const auto last = static_cast<std::uint32_t>(_mm256_cvtsi256_si32(a));
      if constexpr (Bytes == 4) return last;
      return (last & 0xFFFF) > last >> 16 ? last & 0xFFFF : last >> 16;
    }
  }
  template <int Bytes>
  static Integers count_zeros(Integers count, Integers a) {
    const Integers zero = _mm256_setzero_si256();
    if constexpr (Bytes == 2) return _mm256_sub_epi16(count, _mm256_cmpeq_epi16(a, zero));
    if constexpr (Bytes == 4) return _mm256_sub_epi32(count, _mm256_cmpeq_epi32(a, zero));
    if constexpr (Bytes == 8) return _mm256_sub_epi64(count, _mm256_cmpeq_epi64(a, zero));
  }

  static void widen_half(const void* from, void* to) {
    const __m128i bits = _mm_loadu_si128(static_cast<const __m128i*>(from));
    _mm256_store_ps(static_cast<float*>(to), _mm256_cvtph_ps(bits));
  }
  static void widen_bfloat16(const void* from, void* to) {
    const __m128i bits = _mm_loadu_si128(static_cast<const __m128i*>(from));
    store(to, _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }

  static Doubles zero() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
  static Doubles doubles(const void* at) {
    const auto* eight = static_cast<const double*>(at);
    return {_mm256_loadu_pd(eight), _mm256_loadu_pd(eight + 4)};
  }
  static Doubles doubles_of_floats(const void* at) {
    const auto* eight = static_cast<const float*>(at);
    return {_mm256_cvtps_pd(_mm_loadu_ps(eight)), _mm256_cvtps_pd(_mm_loadu_ps(eight + 4))};
  }
  static Doubles add(Doubles a, Doubles b) {
    return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
  }
  static Doubles subtract(Doubles a, Doubles b) {
    return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)};
  }
  static Doubles multiply(Doubles a, Doubles b) {
    return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)};
  }
  static Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
    return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
  }
  static __m256d four_lanes(Doubles a) { return _mm256_add_pd(a.low, a.high); }
};

}  // namespace

const BlockKernels kAvx2Kernels = kKernelsOf<Avx2>;
const LargestKernels kAvx2Largest = kLargestOf<Avx2>;

}  // namespace ddpscope::values
