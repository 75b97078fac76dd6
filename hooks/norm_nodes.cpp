#include "hooks/norm_nodes.h"

#include <torch/csrc/autograd/generated/Functions.h>

namespace ddpscope {
namespace {
using torch::autograd::Node;
using torch::autograd::SavedVariable;

template <class Norm>
bool holds(const Norm& norm, const SavedVariable& saved) noexcept {
  return &saved == &norm.running_mean_ || &saved == &norm.running_var_;
}

template <class... Norms>
bool is_of_training(const SavedVariable& saved, const Node& node) noexcept {
  const auto is_of = [&]<class Norm>(const Norm* norm) {
    return norm != nullptr && norm->training && holds(*norm, saved);
  };
  return (is_of(dynamic_cast<const Norms*>(&node)) || ...);
}
}  // namespace

bool is_only_checked(const SavedVariable& saved, const Node& node) noexcept {
  using namespace torch::autograd::generated;
  return is_of_training<NativeBatchNormBackward0, NativeBatchNormLegitBackward0,
                        CudnnBatchNormBackward0>(saved, node);
}

}  // namespace ddpscope
