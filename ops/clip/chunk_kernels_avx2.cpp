// Compiled for AVX2, FMA and F16C; nothing that it includes may define a shared inline function.
#include <immintrin.h>

#include "ops/clip/chunk_kernels.h"

namespace ddpscope::clip {
namespace {

__m256i load(const void* data) { return _mm256_loadu_si256(static_cast<const __m256i*>(data)); }

template <Kind K>
struct Floats {  // eight at once
  static constexpr int kBytes = K == Kind::kFloat ? 4 : 2;

  static __m256 read(const char* data) {
    if constexpr (K == Kind::kFloat) {
      return _mm256_castsi256_ps(load(data));
    } else {
      const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
      if constexpr (K == Kind::kHalf) {
        return _mm256_cvtph_ps(packed);
      } else {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(packed), 16));
      }
    }
  }

  static void write(char* data, __m256 floats) {
    if constexpr (K == Kind::kFloat) {
      _mm256_storeu_ps(reinterpret_cast<float*>(data), floats);
    } else if constexpr (K == Kind::kHalf) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(data),
                       _mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(data), bfloats(floats));
    }
  }

  // To the nearest, ties to even; any NaN becomes the one that c10 writes.
  static __m128i bfloats(__m256 floats) {
    const __m256i bits = _mm256_castps_si256(floats);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(floats, floats, _CMP_UNORD_Q));
    const __m256i words = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7FC0), is_nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  }
};

template <Sum S>
__m256d add(__m256d sum, __m256d x, bool square_is_exact) {
  if constexpr (S == Sum::kMagnitudes) return _mm256_add_pd(sum, x);
  // Fused, an exact square is rounded as the plain sum rounds it.
  return square_is_exact ? _mm256_fmadd_pd(x, x, sum) : _mm256_add_pd(sum, _mm256_mul_pd(x, x));
}

constexpr int kPrefetchBytes = 1024;  // ahead of what is read

/// The sums in registers: arrays that loops index would live in memory.
struct Registers {
  __m256d sums[4];
  __m256i largest[2];

  explicit Registers(const LaneSums& start)
      : sums{_mm256_loadu_pd(start.lanes), _mm256_loadu_pd(start.lanes + 4),
             _mm256_loadu_pd(start.lanes + 8), _mm256_loadu_pd(start.lanes + 12)},
        largest{_mm256_setzero_si256(), _mm256_setzero_si256()} {}

  template <class Part>
  void store(LaneSums& result) const {
    for (int i = 0; i < 4; ++i) _mm256_storeu_pd(result.lanes + 4 * i, sums[i]);
    Part parts[2 * 32 / sizeof(Part)];
    __builtin_memcpy(parts, largest, sizeof parts);
    for (const Part part : parts) result.largest = part > result.largest ? part : result.largest;
  }
};

template <Sum S>
void add_eight(__m256 x, __m256d& low, __m256d& high, __m256i& largest) {
  x = _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF)));
  largest = _mm256_max_epu32(largest, _mm256_castps_si256(x));
  if constexpr (S != Sum::kNone) {
    low = add<S>(low, _mm256_cvtps_pd(_mm256_castps256_ps128(x)), true);
    high = add<S>(high, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)), true);
  }
}

template <Kind K, Sum S>
void sum_floats(const void* data, std::int64_t groups, LaneSums& result) {
  constexpr int kBytes = 8 * Floats<K>::kBytes;
  const auto* bytes = static_cast<const char*>(data);
  Registers at(result);
  for (std::int64_t group = 0; group < groups; ++group, bytes += 2 * kBytes) {
    _mm_prefetch(bytes + kPrefetchBytes, _MM_HINT_T0);
    add_eight<S>(Floats<K>::read(bytes), at.sums[0], at.sums[1], at.largest[0]);
    add_eight<S>(Floats<K>::read(bytes + kBytes), at.sums[2], at.sums[3], at.largest[1]);
  }
  at.store<std::uint32_t>(result);
}

template <Sum S>
void add_four(const char* bytes, __m256d& sum, __m256i& largest) {
  const __m256i bits = _mm256_and_si256(load(bytes), _mm256_set1_epi64x(0x7FFFFFFFFFFFFFFF));
  largest = _mm256_blendv_epi8(largest, bits, _mm256_cmpgt_epi64(bits, largest));
  if constexpr (S != Sum::kNone) sum = add<S>(sum, _mm256_castsi256_pd(bits), false);
}

template <Sum S>
void sum_doubles(const void* data, std::int64_t groups, LaneSums& result) {
  const auto* bytes = static_cast<const char*>(data);
  Registers at(result);
  for (std::int64_t group = 0; group < groups; ++group, bytes += 128) {
    _mm_prefetch(bytes + kPrefetchBytes, _MM_HINT_T0);
    _mm_prefetch(bytes + kPrefetchBytes + 64, _MM_HINT_T0);
    add_four<S>(bytes, at.sums[0], at.largest[0]);
    add_four<S>(bytes + 32, at.sums[1], at.largest[1]);
    add_four<S>(bytes + 64, at.sums[2], at.largest[0]);
    add_four<S>(bytes + 96, at.sums[3], at.largest[1]);
  }
  at.store<std::uint64_t>(result);
}

template <Kind K>
void scale_floats(void* data, std::int64_t elements, double factor) {
  constexpr int kBytes = Floats<K>::kBytes;
  auto* bytes = static_cast<char*>(data);
  const __m256 factors = _mm256_set1_ps(static_cast<float>(factor));
  std::int64_t i = 0;
  for (; i + 8 <= elements; i += 8, bytes += 8 * kBytes) {
    Floats<K>::write(bytes, _mm256_mul_ps(Floats<K>::read(bytes), factors));
  }
  if (i == elements) return;
  char rest[8 * kBytes] = {};
  __builtin_memcpy(rest, bytes, static_cast<std::size_t>((elements - i) * kBytes));
  Floats<K>::write(rest, _mm256_mul_ps(Floats<K>::read(rest), factors));
  __builtin_memcpy(bytes, rest, static_cast<std::size_t>((elements - i) * kBytes));
}

void scale_doubles(void* data, std::int64_t elements, double factor) {
  auto* doubles = static_cast<double*>(data);
  for (std::int64_t i = 0; i < elements; ++i) doubles[i] *= factor;
}

template <Kind K>
constexpr SumKernel kSumFloats[kSums] = {sum_floats<K, Sum::kNone>, sum_floats<K, Sum::kMagnitudes>,
                                         sum_floats<K, Sum::kSquares>};
#define DDPSCOPE_SUMS(kind) \
  { kSumFloats<kind>[0], kSumFloats<kind>[1], kSumFloats<kind>[2] }

}  // namespace

const ChunkKernels kAvx2Kernels = {
    {DDPSCOPE_SUMS(Kind::kHalf),
     DDPSCOPE_SUMS(Kind::kBFloat16),
     DDPSCOPE_SUMS(Kind::kFloat),
     {sum_doubles<Sum::kNone>, sum_doubles<Sum::kMagnitudes>, sum_doubles<Sum::kSquares>}},
    {scale_floats<Kind::kHalf>, scale_floats<Kind::kBFloat16>, scale_floats<Kind::kFloat>,
     scale_doubles}};

}  // namespace ddpscope::clip
