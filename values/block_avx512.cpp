// Compiled for AVX-512 F, BW and VL; nothing that it includes may define a shared inline function.
#include "values/block_kernel.h"
#include "values/largest_kernel.h"

namespace ddpscope::values {
namespace {

struct Avx512 {
  using Integers = __m512i;
  using Doubles = __m512d;
  static constexpr int kFloats = 16;  // that `widen_...` makes

  static Integers load(const void* data) { return _mm512_loadu_si512(data); }
  static void store(void* target, Integers a) { _mm512_store_si512(target, a); }
  static Integers broadcast(std::uint64_t word) {
    return _mm512_set1_epi64(static_cast<long long>(word));
  }
  static Integers exclusive_or(Integers a, Integers b, Integers c) {
    constexpr int kOddNumberOfOnes = 0x96;
    return _mm512_ternarylogic_epi64(a, b, c, kOddNumberOfOnes);
  }
  static Integers add64(Integers a, Integers b) { return _mm512_add_epi64(a, b); }
  static Integers add32(Integers a, Integers b) { return _mm512_add_epi32(a, b); }
  static Integers product_of_halves(Integers a) {
    return _mm512_mul_epu32(a, _mm512_srli_epi64(a, 32));
  }

  template <int Bytes>
  static Integers magnitude(Integers a) {
    if constexpr (Bytes == 2) return _mm512_and_si512(a, _mm512_set1_epi16(0x7FFF));
    if constexpr (Bytes == 4) return _mm512_and_si512(a, _mm512_set1_epi32(0x7FFFFFFF));
    if constexpr (Bytes == 8) return _mm512_and_si512(a, _mm512_set1_epi64(0x7FFFFFFFFFFFFFFF));
  }
  template <int Bytes>
  static Integers larger(Integers a, Integers b) {
    if constexpr (Bytes == 2) return _mm512_max_epu16(a, b);
    if constexpr (Bytes == 4) return _mm512_max_epu32(a, b);
    if constexpr (Bytes == 8) return _mm512_max_epu64(a, b);
  }
  template <int Bytes>
  static std::uint64_t largest_of(Integers a) {
    if constexpr (Bytes == 8) return _mm512_reduce_max_epu64(a);
    if constexpr (Bytes == 4) return _mm512_reduce_max_epu32(a);
    const Integers high = _mm512_srli_epi32(a, 16);
    const Integers low = _mm512_and_si512(a, _mm512_set1_epi32(0xFFFF));
    return _mm512_reduce_max_epu32(_mm512_max_epu32(high, low));
  }
  template <int Bytes>
  static Integers count_zeros(Integers count, Integers a) {
    const Integers minus = _mm512_set1_epi64(-1);
    if constexpr (Bytes == 2) {
      return _mm512_mask_sub_epi16(count, _mm512_testn_epi16_mask(a, a), count, minus);
    } else if constexpr (Bytes == 4) {
      return _mm512_mask_sub_epi32(count, _mm512_testn_epi32_mask(a, a), count, minus);
    } else {
      return _mm512_mask_sub_epi64(count, _mm512_testn_epi64_mask(a, a), count, minus);
    }
  }

  static void widen_half(const void* from, void* to) {
    _mm512_store_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from))));
  }
  static void widen_bfloat16(const void* from, void* to) {
    const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(from));
    _mm512_store_si512(to, _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }

  static Doubles zero() { return _mm512_setzero_pd(); }
  static Doubles doubles(const void* at) { return _mm512_loadu_pd(at); }
  static Doubles doubles_of_floats(const void* at) {
    return _mm512_cvtps_pd(_mm256_loadu_ps(static_cast<const float*>(at)));
  }
  static Doubles add(Doubles a, Doubles b) { return _mm512_add_pd(a, b); }
  static Doubles subtract(Doubles a, Doubles b) { return _mm512_sub_pd(a, b); }
  static Doubles multiply(Doubles a, Doubles b) { return _mm512_mul_pd(a, b); }
  static Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
  static __m256d four_lanes(Doubles a) {
    return _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
  }
};

}  // namespace

const BlockKernels kAvx512Kernels = kKernelsOf<Avx512>;
const LargestKernels kAvx512Largest = kLargestOf<Avx512>;

}  // namespace ddpscope::values
