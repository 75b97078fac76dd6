#include "ops/clip/chunk_kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#ifdef DDPSCOPE_OPS_X86
#include <cpuid.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace ddpscope::clip {
namespace {

template <class T, Sum S>
void sum_plain(const void* data, std::int64_t groups, LaneSums& sums) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  using Bits = std::conditional_t<std::is_same_v<T, double>, std::uint64_t, std::uint32_t>;
  const auto* elements = static_cast<const T*>(data);
  for (std::int64_t group = 0; group < groups; ++group, elements += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const Wide x = std::fabs(static_cast<Wide>(elements[lane]));
      sums.largest = std::max<std::uint64_t>(sums.largest, std::bit_cast<Bits>(x));
      const auto wide = static_cast<double>(x);
      if constexpr (S == Sum::kMagnitudes) sums.lanes[lane] += wide;
      if constexpr (S == Sum::kSquares) sums.lanes[lane] += wide * wide;
    }
  }
}

template <class T>
void scale_plain(void* data, std::int64_t elements, double factor) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  auto* values = static_cast<T*>(data);
  const auto wide = static_cast<Wide>(factor);
  for (std::int64_t i = 0; i < elements; ++i) {
    values[i] = static_cast<T>(static_cast<Wide>(values[i]) * wide);
  }
}

}  // namespace

#define DDPSCOPE_PLAIN_SUMS(type) \
  { sum_plain<type, Sum::kNone>, sum_plain<type, Sum::kMagnitudes>, sum_plain<type, Sum::kSquares> }

const ChunkKernels kPortableKernels = {
    {DDPSCOPE_PLAIN_SUMS(c10::Half), DDPSCOPE_PLAIN_SUMS(c10::BFloat16), DDPSCOPE_PLAIN_SUMS(float),
     DDPSCOPE_PLAIN_SUMS(double)},
    {scale_plain<c10::Half>, scale_plain<c10::BFloat16>, scale_plain<float>, scale_plain<double>}};

bool has_avx2() {
#ifdef DDPSCOPE_OPS_X86
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c;
#else
  return false;
#endif
}

const ChunkKernels& chunk_kernels() {
#ifdef DDPSCOPE_OPS_X86
  static const bool is_wide = has_avx2();
  if (is_wide) return kAvx2Kernels;
#endif
  return kPortableKernels;
}

}  // namespace ddpscope::clip
