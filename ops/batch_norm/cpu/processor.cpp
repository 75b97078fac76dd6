#include "ops/batch_norm/cpu/processor.h"

#ifdef DDPSCOPE_OPS_X86
#include <cpuid.h>
#endif

namespace ddpscope::batch_norm {
namespace {

#ifdef DDPSCOPE_OPS_X86
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

}  // namespace

bool is_available(Processor path) {
#ifdef DDPSCOPE_OPS_X86
  const bool has_avx2 = __builtin_cpu_supports("avx2") && has_f16c();
  if (path == Processor::kAvx2) return has_avx2;
  if (path == Processor::kAvx512)
    return has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#endif
  return path == Processor::kPortable;
}

const Kernels& kernels_of(Processor path, ScalarKind kind) {
  const auto index = static_cast<std::size_t>(kind);
#ifdef DDPSCOPE_OPS_X86
  if (path == Processor::kAvx512) return kAvx512Kernels.by_kind[index];
  if (path == Processor::kAvx2) return kAvx2Kernels.by_kind[index];
#endif
  return kPortableKernels.by_kind[index];
}

const Kernels& kernels_of(ScalarKind kind) {
  static const Processor best = is_available(Processor::kAvx512) ? Processor::kAvx512
                                : is_available(Processor::kAvx2) ? Processor::kAvx2
                                                                 : Processor::kPortable;
  return kernels_of(best, kind);
}

}  // namespace ddpscope::batch_norm
