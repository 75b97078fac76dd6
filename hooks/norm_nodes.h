#pragma once

namespace at {
class Tensor;
}  // namespace at

namespace torch::autograd {
struct Node;
class SavedVariable;
}  // namespace torch::autograd

namespace ddpscope {

/// Whether this is what a batch norm in training mode saved of its running statistics: backward
/// checks its version and never reads it.
bool is_only_checked(const torch::autograd::SavedVariable& saved,
                     const torch::autograd::Node& node) noexcept;

/// Whether this is a batch norm in training mode: it reads the batch and its weights alone.
bool normalizes_by_batch(const torch::autograd::Node& node) noexcept;

/// Whether a norm saved this of what it normalized, mean and deviation, which it returns without a
/// node, or of its running statistics.
bool is_statistic(const at::Tensor& saved, const torch::autograd::Node& reader);

}  // namespace ddpscope
