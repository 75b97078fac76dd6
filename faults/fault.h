#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

namespace torch::optim {
class Optimizer;
}

namespace ddpscope {

/// A call of a layer whose input depends on other layers, with grad mode on.
struct LayerCall {
  at::Tensor& weight;  ///< the layer's own member
  const at::Tensor& input;
  std::int64_t features;  ///< the dimension of the input that they lie in
  std::function<at::Tensor(const at::Tensor& input)> run;
};

/// A call of `cross_entropy` with grad mode on.
struct LabelLossCall {
  const at::Tensor& input;   ///< [N, classes, ...]
  const at::Tensor& target;  ///< labels [N, ...]
  std::function<at::Tensor(const at::Tensor& input, const at::Tensor& target)> run;
};

/// A call of batch norm in training with running statistics.
struct NormCall {
  const at::Tensor& input;  ///< [N, channels, ...]
  const at::Tensor& mean;
  std::function<at::Tensor(const at::Tensor& input)> run;
};

/// A mistake, made at the places where a program could make it, with the operators that a program
/// would use. What is called here meets the hooks as if the program had called it. One thread at a
/// time calls, none before the fault is to begin.
class Fault {
 public:
  virtual ~Fault() = default;

  /// Always of the same layer.
  virtual at::Tensor layer(const LayerCall& call) { return call.run(call.input); }
  virtual at::Tensor label_loss(const LabelLossCall& call) {
    return call.run(call.input, call.target);
  }
  virtual at::Tensor norm(const NormCall& call) { return call.run(call.input); }
  virtual void before_backward(at::Tensor& /*loss*/) {}
  virtual void after_backward(const at::Tensor& /*loss*/) {}
  /// Whether the program's `zero_grad` is left out.
  virtual bool leaves_out_clearing() { return false; }
  /// Whether the program's `train()` is left out, and the model in eval mode.
  virtual bool leaves_out_train() { return false; }
  /// Of an optimizer that has members when it comes here first.
  virtual void before_step(torch::optim::Optimizer& /*optimizer*/) {}
  virtual void after_step(torch::optim::Optimizer& /*optimizer*/) {}
};

/// Said by a fault when it does its first harm, right before.
void planted() noexcept;
/// The rank of this process and the number of ranks.
std::int64_t rank_of_fault() noexcept;
std::int64_t ranks_of_fault() noexcept;

/// The fault of a row of model/faults.def.
std::unique_ptr<Fault> make_fault(std::string_view name);

#define DDPSCOPE_FAULT(name, cpp_name, ...) std::unique_ptr<Fault> make_##cpp_name();
#include "model/faults.def"
#undef DDPSCOPE_FAULT
#undef DDPSCOPE_RANK_FAULT

}  // namespace ddpscope
