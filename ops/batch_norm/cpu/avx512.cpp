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
  static void narrow(const Vector& from, BFloat16* to) {
    const __m512 numbers = from.part[0];
    const __m512i bits = _mm512_castps_si512(numbers);
    const __mmask16 is_odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const __m512i up =
        _mm512_mask_blend_epi32(is_odd, _mm512_set1_epi32(0x7FFF), _mm512_set1_epi32(0x8000));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(numbers, numbers, _CMP_UNORD_Q);
    const __m512i result =
        _mm512_mask_mov_epi32(_mm512_add_epi32(bits, up), is_nan, _mm512_set1_epi32(0x7FC00000));
    // The upper half of each, in the lower half of the vector.
    const __m512i halves = _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 31, 29,
                                            27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    store(_mm512_castsi512_si256(_mm512_permutexvar_epi16(halves, result)), to);
  }
};

}  // namespace

const KernelTable kAvx512Kernels = kKernelsOf<Avx512>;

}  // namespace ddpscope::batch_norm
