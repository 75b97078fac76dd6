// Compiled for AVX2 and F16C; nothing that it includes may define a shared inline function.
#include <immintrin.h>

#include "ops/batch_norm/cpu/kernel_table.h"

namespace ddpscope::batch_norm {
namespace {

struct Avx2 {
  static constexpr int kBytes = 32;
  using Vector = Lanes<float, kBytes>;

  static __m128i load(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
  static void widen(const Half* from, Vector& to) {
    for (int i = 0; i < 2; ++i) to.part[i] = _mm256_cvtph_ps(load(from + 8 * i));
  }
  static void narrow(const Vector& from, Half* to) {
    for (int i = 0; i < 2; ++i) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8 * i),
                       _mm256_cvtps_ph(from.part[i], _MM_FROUND_TO_NEAREST_INT));
    }
  }
  static void widen(const BFloat16* from, Vector& to) {
    for (int i = 0; i < 2; ++i) {
      const __m256i bits = _mm256_cvtepu16_epi32(load(from + 8 * i));
      to.part[i] = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
    }
  }
  /// In the upper half of each. A NaN is not meant to be here.
  static __m256i rounded(__m256 numbers) {
    const __m256i bits = _mm256_castps_si256(numbers);
    const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_set1_epi32(0x7FFF), is_odd);
    return _mm256_add_epi32(bits, up);
  }
  static __m256i rounded_or_nan(__m256 numbers) {
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(numbers, numbers, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded(numbers), _mm256_set1_epi32(0x7FC00000), is_nan);
  }
  static void narrow(const Vector& from, BFloat16* to) {
    const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(rounded_or_nan(from.part[0]), 16),
                                               _mm256_srli_epi32(rounded_or_nan(from.part[1]), 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xD8));
  }
  // Of a pair the first has the even places: no value changes its half of the vector.
  static void widen(const BFloat16* from, Vector& even, Vector& odd) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000));
    for (int i = 0; i < 2; ++i) {
      const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 16 * i));
      even.part[i] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
      odd.part[i] = _mm256_castsi256_ps(_mm256_and_si256(both, upper));
    }
  }
  static void narrow(const Vector& even, const Vector& odd, BFloat16* to) {
    for (int i = 0; i < 2; ++i) {
      const __m256 unordered = _mm256_cmp_ps(even.part[i], odd.part[i], _CMP_UNORD_Q);
      const bool has_nan = _mm256_movemask_ps(unordered) != 0;
      const __m256i low = has_nan ? rounded_or_nan(even.part[i]) : rounded(even.part[i]);
      const __m256i high = has_nan ? rounded_or_nan(odd.part[i]) : rounded(odd.part[i]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16 * i),
                          _mm256_blend_epi16(_mm256_srli_epi32(low, 16), high, 0xAA));
    }
  }
};

}  // namespace

const KernelTable kAvx2Kernels = kKernelsOf<Avx2>;

}  // namespace ddpscope::batch_norm
