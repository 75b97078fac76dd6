#pragma once

#include "ops/batch_norm/cpu/kernels.h"

namespace ddpscope::batch_norm {

/// Which instructions the kernels use. Every path gives the same bits.
enum class Processor : std::uint8_t { kPortable, kAvx2, kAvx512 };

bool is_available(Processor path);
const Kernels& kernels_of(Processor path, ScalarKind kind);
/// Of the best path that this processor has.
const Kernels& kernels_of(ScalarKind kind);

}  // namespace ddpscope::batch_norm
