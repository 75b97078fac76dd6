#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <vector>

namespace ddpscope {

/// Reads what a module registers without copying the lists.
struct Registered {
  using Modules = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>;
  using Tensors = torch::OrderedDict<std::string, at::Tensor>;
  static const Modules& children(const torch::nn::Module& module);
  static const Tensors& parameters(const torch::nn::Module& module);
  static const Tensors& buffers(const torch::nn::Module& module);
  /// Whether the module itself registers this very tensor.
  static bool holds(const torch::nn::Module& module, const c10::TensorImpl* tensor);
};

/// Where a module is registered below a root: the root itself where there are no steps.
struct PlaceInTree {
  struct Step {
    std::size_t index;
    const torch::nn::Module* module;
  };
  std::vector<Step> steps;
  std::string path;

  /// Whether the same objects still stand there. Reads only what the living root leads to: true
  /// proves that the module is alive.
  bool stands_below(const torch::nn::Module& root) const;
};

/// Whether some module below `root`, or it itself, is what is looked for. Allocates nothing.
template <class IsIt>
bool any_below(const torch::nn::Module& root, const IsIt& is_it, int depth = 0) {
  constexpr int kMaxDepth = 200;
  if (is_it(root)) return true;
  if (depth == kMaxDepth) return false;
  for (const auto& child : Registered::children(root)) {
    if (child.value() != nullptr && any_below(*child.value(), is_it, depth + 1)) return true;
  }
  return false;
}

/// Visits every module object below `root` and it itself once, parents first.
void for_each_below(
    const torch::nn::Module& root,
    const std::function<void(const torch::nn::Module& module, const PlaceInTree& place)>& visit);

}  // namespace ddpscope
