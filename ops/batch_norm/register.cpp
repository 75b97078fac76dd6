// What other languages call: torch.ops.load_library("libddpscope.so"), then torch.ops.ddpscope.
#include <ddpscope/ops/sync_batch_norm.h>
#include <torch/library.h>

#include <optional>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "ops/communicator/named.h"

namespace ddpscope::batch_norm {
namespace {
using MaybeTensor = std::optional<at::Tensor>;

/// The group of LibTorch's registry; a name that is not there throws there.
CommunicatorPtr group_of(const std::string& name) {
  if (name.empty()) return nullptr;
  if (const CommunicatorPtr own = communicator::registered(name)) return own;
  const auto group = c10d::resolve_process_group(name);
  return communicator::kept_for(name, group.get(), [&] { return make_communicator(group); });
}

at::Tensor run(const at::Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias,
               const MaybeTensor& running_mean, const MaybeTensor& running_var, bool training,
               double momentum, double eps, std::string_view group, std::string_view layer) {
  const auto tensor_of = [](const MaybeTensor& tensor) { return tensor.value_or(at::Tensor()); };
  return sync_batch_norm(input, tensor_of(running_mean), tensor_of(running_var),
                         SyncBatchNormFuncOptions()
                             .weight(tensor_of(weight))
                             .bias(tensor_of(bias))
                             .training(training)
                             .momentum(momentum)
                             .eps(eps)
                             .communicator(training ? group_of(std::string(group)) : nullptr)
                             .name(std::string(layer)));
}

// Without a key of its own it runs with the graph of the function, twice differentiable.
TORCH_LIBRARY_FRAGMENT(ddpscope, library) {
  library.def(
      "sync_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, "
      "Tensor(b!)? running_var, bool training, float momentum=0.1, float eps=1e-05, "
      "str group=\"\", str layer=\"\") -> Tensor",
      &run);
}

}  // namespace
}  // namespace ddpscope::batch_norm
