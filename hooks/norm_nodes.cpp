#include "hooks/norm_nodes.h"

#include <torch/csrc/autograd/generated/Functions.h>

#include <string>

namespace ddpscope {
namespace {
using torch::autograd::Node;
using torch::autograd::SavedVariable;

template <class Norm>
bool holds(const Norm& norm, const SavedVariable& saved) noexcept {
  return &saved == &norm.running_mean_ || &saved == &norm.running_var_;
}

/// Asks of a node that is a batch norm in training mode.
bool is_training_norm(const Node& node, const auto& ask) noexcept {
  using namespace torch::autograd::generated;
  const auto is_one = [&]<class Norm>(const Norm* norm) {
    return norm != nullptr && norm->training && ask(*norm);
  };
  return is_one(dynamic_cast<const NativeBatchNormBackward0*>(&node)) ||
         is_one(dynamic_cast<const NativeBatchNormLegitBackward0*>(&node)) ||
         is_one(dynamic_cast<const CudnnBatchNormBackward0*>(&node));
}
}  // namespace

bool is_only_checked(const SavedVariable& saved, const Node& node) noexcept {
  return is_training_norm(node, [&saved](const auto& norm) { return holds(norm, saved); });
}

bool normalizes_by_batch(const Node& node) noexcept {
  return is_training_norm(node, [](const auto&) { return true; });
}

bool is_statistic(const at::Tensor& saved, const Node& reader) {
  const std::string name = reader.name();
  const bool is_norm = name.starts_with("NativeLayerNorm") || name.starts_with("NativeGroupNorm");
  if (!is_norm && !normalizes_by_batch(reader)) return false;
  if (saved.requires_grad() || reader.num_inputs() == 0) return false;
  const auto shape = c10::asIntArrayRefUnchecked(reader.input_metadata(0).shape_as_dim_vector());
  return saved.numel() < c10::multiply_integers(shape);
}

}  // namespace ddpscope
