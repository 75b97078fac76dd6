#pragma once

#include "values/block.h"

namespace ddpscope::values {

/// What this processor runs for a path; one that is not available is the caller's fault.
const BlockKernels& block_kernels_of(ValuePath path);
const LargestKernels& largest_kernels_of(ValuePath path);

}  // namespace ddpscope::values
