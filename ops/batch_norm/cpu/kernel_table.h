#pragma once

#include "ops/batch_norm/cpu/map_kernel.h"
#include "ops/batch_norm/cpu/sums_kernel.h"

namespace ddpscope::batch_norm {

template <class Processor, class Value>
constexpr Kernels make_kernels() {
  using Sums = SumKernels<Processor, Value>;
  using Forward = MapKernel<Processor, Value, Normalize>;
  using Backward = MapKernel<Processor, Value, GradInput>;
  return {Sums::measure_run,    Sums::measure_band, Sums::reduce_run,      Sums::reduce_band,
          Forward::map_stretch, Forward::map_band,  Backward::map_stretch, Backward::map_band};
}

template <class Processor>
inline constexpr KernelTable kKernelsOf = {
    {make_kernels<Processor, Half>(), make_kernels<Processor, BFloat16>(),
     make_kernels<Processor, float>(), make_kernels<Processor, double>()}};

}  // namespace ddpscope::batch_norm
