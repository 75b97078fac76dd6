// Compiled for AVX2, FMA and F16C; nothing that it includes may define a shared inline function.
#include "values/block_kernel.h"
#include "values/largest_kernel.h"

namespace ddpscope::values {
namespace {

struct TwoVectors {
  __m256d low, high;

  static TwoVectors zero() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
  static TwoVectors from_halves(__m256d low, __m256d high) { return {low, high}; }
  static TwoVectors from_floats(__m256 floats) {
    return {_mm256_cvtps_pd(_mm256_castps256_ps128(floats)),
            _mm256_cvtps_pd(_mm256_extractf128_ps(floats, 1))};
  }
  static TwoVectors multiply_add(TwoVectors a, TwoVectors b, TwoVectors c) {
    return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
  }
  double sum_of_lanes() const {
    const __m256d four = _mm256_add_pd(low, high);
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
  }
  friend TwoVectors operator+(TwoVectors a, TwoVectors b) {
    return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
  }
  friend TwoVectors operator-(TwoVectors a, TwoVectors b) {
    return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)};
  }
  friend TwoVectors operator*(TwoVectors a, TwoVectors b) {
    return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)};
  }
};

}  // namespace

const BlockKernels kAvx2Kernels = kKernelsOf<TwoVectors>;
const LargestKernels kAvx2Largest = kLargestOf<TwoVectors>;

}  // namespace ddpscope::values
