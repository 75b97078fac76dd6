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
  static __m256i rounded(__m256 numbers) {
    const __m256i bits = _mm256_castps_si256(numbers);
    const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_set1_epi32(0x7FFF), is_odd);
    const __m256i high = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(numbers, numbers, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(high, _mm256_set1_epi32(0x7FC0), is_nan);
  }
  static void narrow(const Vector& from, BFloat16* to) {
    const __m256i packed = _mm256_packus_epi32(rounded(from.part[0]), rounded(from.part[1]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xD8));
  }
};

}  // namespace

const KernelTable kAvx2Kernels = kKernelsOf<Avx2>;

}  // namespace ddpscope::batch_norm
