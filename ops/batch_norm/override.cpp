#include "ops/batch_norm/override.h"

#include <ATen/ops/_batch_norm_impl_index.h>
#include <ddpscope/ops/sync_batch_norm.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "ops/batch_norm/arguments.h"

namespace ddpscope {
namespace batch_norm {
namespace {
using MaybeTensor = std::optional<at::Tensor>;

constinit std::atomic<FindLayer> find_layer{nullptr};
std::mutex chosen_mutex;

CommunicatorPtr& chosen() {
  static auto* const leaked = new CommunicatorPtr;
  return *leaked;
}

at::Tensor tensor_of(const MaybeTensor& tensor) { return tensor.value_or(at::Tensor()); }

LayerOverRanks layer_of(const at::Tensor& input, const MaybeTensor& weight,
                        const MaybeTensor& running_mean) {
  const FindLayer find = find_layer.load(std::memory_order_acquire);
  if (find == nullptr) return {};
  LayerOverRanks layer = find({input, tensor_of(weight), tensor_of(running_mean)});
  if (layer.communicator && layer.communicator->size() == 1) layer.communicator = nullptr;
  return layer;
}

at::Tensor run_batch_norm(const at::Tensor& input, const MaybeTensor& weight,
                          const MaybeTensor& bias, const MaybeTensor& running_mean,
                          const MaybeTensor& running_var, bool training, double momentum,
                          double eps, bool cudnn_enabled) {
  const LayerOverRanks layer = training ? layer_of(input, weight, running_mean) : LayerOverRanks();
  if (!layer.communicator) {
    return std::get<0>(at::_batch_norm_impl_index(input, weight, bias, running_mean, running_var,
                                                  training, momentum, eps, cudnn_enabled));
  }
  return sync_batch_norm(input, tensor_of(running_mean), tensor_of(running_var),
                         SyncBatchNormFuncOptions()
                             .weight(tensor_of(weight))
                             .bias(tensor_of(bias))
                             .training(true)
                             .momentum(momentum)
                             .eps(eps)
                             .communicator(layer.communicator)
                             .name(layer.name));
}
}  // namespace

// The operator is composite: a kernel for these keys runs in its place.
Override::Override(FindLayer find)
    : cpu_(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, __FILE__, __LINE__),
      cuda_(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCUDA, __FILE__, __LINE__) {
  find_layer.store(find, std::memory_order_release);
  cpu_.impl("batch_norm", TORCH_FN(run_batch_norm));
  cuda_.impl("batch_norm", TORCH_FN(run_batch_norm));
}

Override::~Override() { find_layer.store(nullptr); }

CommunicatorPtr chosen_communicator() {
  const std::lock_guard lock(chosen_mutex);
  return chosen();
}

}  // namespace batch_norm

inline namespace api0 {

void set_batch_norm_communicator(const CommunicatorPtr& communicator) {
  const std::lock_guard lock(batch_norm::chosen_mutex);
  batch_norm::chosen() = communicator;
}

}  // namespace api0
}  // namespace ddpscope
