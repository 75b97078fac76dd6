// Compiled for AVX-512 F and VL; nothing that it includes may define a shared inline function.
#include "values/block_kernel.h"
#include "values/largest_kernel.h"

namespace ddpscope::values {
namespace {

struct OneVector {
  __m512d all;

  static OneVector zero() { return {_mm512_setzero_pd()}; }
  static OneVector from_halves(__m256d low, __m256d high) {
    return {_mm512_insertf64x4(_mm512_castpd256_pd512(low), high, 1)};
  }
  static OneVector from_floats(__m256 floats) { return {_mm512_cvtps_pd(floats)}; }
  static OneVector multiply_add(OneVector a, OneVector b, OneVector c) {
    return {_mm512_fmadd_pd(a.all, b.all, c.all)};
  }
  double sum_of_lanes() const {
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(all), _mm512_extractf64x4_pd(all, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
  }
  friend OneVector operator+(OneVector a, OneVector b) { return {_mm512_add_pd(a.all, b.all)}; }
  friend OneVector operator-(OneVector a, OneVector b) { return {_mm512_sub_pd(a.all, b.all)}; }
  friend OneVector operator*(OneVector a, OneVector b) { return {_mm512_mul_pd(a.all, b.all)}; }
};

}  // namespace

const BlockKernels kAvx512Kernels = kKernelsOf<OneVector>;
const LargestKernels kAvx512Largest = kLargestOf<OneVector>;

}  // namespace ddpscope::values
