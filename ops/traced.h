#pragma once

#include <ATen/core/Tensor.h>

namespace ddpscope::ops {

/// Whether operators are recorded for it, or its shape alone is followed, as in torch.compile and
/// torch.export or on the device meta: there is no memory to read.
bool is_traced(const at::Tensor& tensor);

}  // namespace ddpscope::ops
