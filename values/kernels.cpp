#include "values/kernels.h"

#ifdef DDPSCOPE_VALUES_X86
#include <cpuid.h>
#endif

namespace ddpscope {
namespace {

#ifdef DDPSCOPE_VALUES_X86
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

ValuePath resolved(ValuePath path) {
  static const ValuePath best = is_available(ValuePath::kAvx512) ? ValuePath::kAvx512
                                : is_available(ValuePath::kAvx2) ? ValuePath::kAvx2
                                                                 : ValuePath::kPortable;
  return path == ValuePath::kBest ? best : path;
}

}  // namespace

bool is_available(ValuePath path) {
#ifdef DDPSCOPE_VALUES_X86
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (path == ValuePath::kAvx2) return has_avx2;
  if (path == ValuePath::kAvx512) {
    return has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
  }
#endif
  return path == ValuePath::kBest || path == ValuePath::kPortable;
}

namespace values {

const BlockKernels& block_kernels_of(ValuePath path) {
#ifdef DDPSCOPE_VALUES_X86
  path = resolved(path);
  if (path == ValuePath::kAvx512) return kAvx512Kernels;
  if (path == ValuePath::kAvx2) return kAvx2Kernels;
#endif
  return kPortableKernels;
}

const LargestKernels& largest_kernels_of(ValuePath path) {
#ifdef DDPSCOPE_VALUES_X86
  path = resolved(path);
  if (path == ValuePath::kAvx512) return kAvx512Largest;
  if (path == ValuePath::kAvx2) return kAvx2Largest;
#endif
  return kPortableLargest;
}

}  // namespace values
}  // namespace ddpscope
