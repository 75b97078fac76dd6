#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/nn/module.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "hooks/user_hooks.h"

namespace ddpscope {

/// Hands the gradients of one call's tensors to the hooks of the program.
///
/// Note [Listening to gradients]: a hook of ours stands before the autograd node of each output and
/// each input and reads the gradient there; tensors are neither wrapped nor kept, so in-place
/// operators, stealing of gradients and double backward go on as without us. The nodes of the
/// outputs own this object, those of the inputs only know it: an input may live longer than the
/// call's graph, and belong to many calls.
class BackwardOfCall {
 public:
  /// Before forward: an in-place operator gives its input another node.
  BackwardOfCall(const torch::nn::Module& module, const HookMatches& hooks,
                 const std::vector<at::Tensor>& inputs);
  /// After forward.
  void listen(const std::shared_ptr<BackwardOfCall>& self, const std::vector<at::Tensor>& outputs);

  enum class Side : std::uint8_t { kOutputs, kInputs };
  /// The gradient of one tensor came, as part of a backward. False where that is not one of this
  /// call.
  bool arrived(const std::shared_ptr<BackwardOfCall>& self, Side side, std::size_t position,
               const at::Tensor& gradient);

 private:
  // Gradients that wait for others of the same call and backward; owned by that backward.
  struct Waiting {
    int backward = 0;
    std::vector<at::Tensor> gradients;
    std::size_t missing = 0;
  };
  struct Stage {
    std::size_t tensors = 0;
    std::size_t expected = 0;
    std::weak_ptr<Waiting> waiting;
  };

  Stage& stage(Side side) { return side == Side::kOutputs ? outputs_ : inputs_; }
  bool takes_part(Side side, int backward);
  std::shared_ptr<Waiting> wait(const std::shared_ptr<BackwardOfCall>& self, Side side,
                                int backward);
  void finish(Side side, Waiting& waiting);
  void tell(Side side, const std::vector<at::Tensor>& gradients);

  const torch::nn::Module& module_;
  const HookMatches hooks_;
  std::vector<torch::autograd::Edge> input_edges_;  // during forward only
  std::mutex mutex_;
  Stage outputs_;
  Stage inputs_;
  int running_ = -1;  // the backward that reached an output last
};

}  // namespace ddpscope
