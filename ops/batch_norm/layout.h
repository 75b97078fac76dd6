#pragma once

#include <ATen/core/Tensor.h>

#include "ops/batch_norm/cpu.h"

namespace ddpscope::batch_norm {

ScalarKind scalar_kind(at::ScalarType dtype);

/// The tensor itself, else a copy: where it stands for zeros that nothing holds, or its sign is
/// still to be changed, memory does not hold its values. Part of the graph.
at::Tensor in_memory(const at::Tensor& tensor);
/// The same without gaps; undefined if it is.
at::Tensor dense(const at::Tensor& numbers);

/// The tensor itself where it lies without gaps as planes or as rows, else a copy that does, in the
/// format that its strides suggest. Part of the graph.
at::Tensor without_gaps(const at::Tensor& input);

/// Of a tensor that `without_gaps` gave.
NormShape shape_of(const at::Tensor& input);

/// `gradient` in the layout of the tensor; itself where it has it. Part of the graph.
at::Tensor in_layout(const at::Tensor& gradient, Layout layout);

/// Numbers per channel as a tensor that broadcasts over `input`.
at::Tensor over_channels(const at::Tensor& numbers, const at::Tensor& input);

/// Moves the version of what was written where LibTorch does not see it, if it is defined.
void bump(const at::Tensor& tensor);

}  // namespace ddpscope::batch_norm
