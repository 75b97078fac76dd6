// Compiled for AVX-512 F and BW; nothing that it includes may define a shared inline function.
#include <immintrin.h>

#include "ops/batch_norm/cpu/kernel_table.h"

namespace ddpscope::batch_norm {
namespace {

struct Avx512 {
  static constexpr int kBytes = 64;
  using Vector = Lanes<float, kBytes>;

  static __m256i load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static void store(__m256i bits, void* to) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), bits);
  }
  static void widen(const Half* from, Vector& to) { to.part[0] = _mm512_cvtph_ps(load(from)); }
  static void narrow(const Vector& from, Half* to) {
    store(_mm512_cvtps_ph(from.part[0], _MM_FROUND_TO_NEAREST_INT), to);
  }
  static void widen(const BFloat16* from, Vector& to) {
    to.part[0] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load(from)), 16));
  }
  /// In the upper half of each. A NaN is not meant to be here.
  static __m512i rounded(__m512 numbers) {
    const __m512i bits = _mm512_castps_si512(numbers);
    const __mmask16 is_odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const __m512i up =
        _mm512_mask_blend_epi32(is_odd, _mm512_set1_epi32(0x7FFF), _mm512_set1_epi32(0x8000));
    return _mm512_add_epi32(bits, up);
  }
  static __m512i rounded_or_nan(__m512 numbers) {
    const __mmask16 is_nan = _mm512_cmp_ps_mask(numbers, numbers, _CMP_UNORD_Q);
    return _mm512_mask_mov_epi32(rounded(numbers), is_nan, _mm512_set1_epi32(0x7FC00000));
  }
  static void narrow(const Vector& from, BFloat16* to) {
    // The upper half of each, in the lower half of the vector.
    const __m512i halves = _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 31, 29,
                                            27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    store(_mm512_castsi512_si256(_mm512_permutexvar_epi16(halves, rounded_or_nan(from.part[0]))),
          to);
  }
  // Of a pair the first has the even places: no value changes its half of the vector.
  static void widen(const BFloat16* from, Vector& even, Vector& odd) {
    const __m512i both = _mm512_loadu_si512(from);
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
    even.part[0] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    odd.part[0] = _mm512_castsi512_ps(_mm512_and_si512(both, upper));
  }
  static void narrow(const Vector& even, const Vector& odd, BFloat16* to) {
    constexpr __mmask32 kOdd = 0xAAAAAAAA;
    const bool has_nan = _mm512_cmp_ps_mask(even.part[0], odd.part[0], _CMP_UNORD_Q) != 0;
    const __m512i low = has_nan ? rounded_or_nan(even.part[0]) : rounded(even.part[0]);
    const __m512i high = has_nan ? rounded_or_nan(odd.part[0]) : rounded(odd.part[0]);
    _mm512_storeu_si512(to, _mm512_mask_blend_epi16(kOdd, _mm512_srli_epi32(low, 16), high));
  }
};

}  // namespace

const KernelTable kAvx512Kernels = kKernelsOf<Avx512>;

}  // namespace ddpscope::batch_norm
