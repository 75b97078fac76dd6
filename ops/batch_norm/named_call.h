#pragma once

#include <ATen/core/stack.h>
#include <ddpscope/ops/sync_batch_norm.h>

#include <cstdint>
#include <string>

namespace ddpscope::batch_norm {

/// A call by the schema of the registered operator.
struct NamedCall {
  at::Tensor input, running_mean, running_var;
  SyncBatchNormFuncOptions options;  ///< without the group
  std::string group;

  /// With the group, for a call that trains. @throws what the lookup of the name throws.
  SyncBatchNormFuncOptions options_with_group() const;
};

/// Arguments of that schema.
inline constexpr std::size_t kNamedArguments = 10;

/// Takes them from the stack.
NamedCall pop_call(torch::jit::Stack& stack);

/// The group of a registered communicator, else of LibTorch's registry; null without a name.
CommunicatorPtr group_of(const std::string& name);

/// Records the call, whose arguments are on the stack, with a backward that is recorded, too.
at::Tensor trace_with_gradient(const torch::jit::Stack& stack);

/// The output for an input of which only the shape is known.
at::Tensor like_output(const at::Tensor& input);

}  // namespace ddpscope::batch_norm
