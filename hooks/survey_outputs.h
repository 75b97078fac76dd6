#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// The node that computed a tensor; null for a leaf. Of a view that autograd cannot follow, such as
/// one made without grad mode, the node before it was written: to ask LibTorch again would throw.
const void* node_of(const at::Tensor& tensor);

/// What the surveyed operators of this thread returned in the step in progress.
class SurveyOutputs {
 public:
  /// Those of the calling thread.
  static SurveyOutputs& here();

  void begin_step_if_new(std::int64_t step);
  void add(const at::Tensor& output, TensorId id);
  /// The ids that were added since the last call.
  std::vector<TensorId> take();

  /// The newest output that this node of the graph returned; 0 if there is none.
  TensorId made_by(const void* node) const;
  /// Whether it has no gradient path and lies in the memory of an output that had one.
  bool hides_gradient(const at::Tensor& tensor) const;

 private:
  struct Made {
    const void* node = nullptr;
    TensorId output = 0;
  };
  std::int64_t step_ = -1;
  std::vector<TensorId> ids_;
  std::vector<Made> made_;
  // A weak reference keeps the address from being used again, and no memory of the tensor alive.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> carriers_;
};

}  // namespace ddpscope
