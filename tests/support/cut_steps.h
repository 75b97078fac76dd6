#pragma once

#include <vector>

#include "tests/support/stale_events.h"

namespace ddpscope::test {

inline const std::vector<Registered> kNet = {{.id = 1, .path = "trunk.weight", .shape = {32, 8}},
                                             {.id = 2, .path = "head.weight"}};
inline constexpr TensorId kLoss = 30;

/// The trunk computes 21 from its weight, the head 29 from its own, the loss is 30.
struct CutSteps {
  LinesByStack lines;
  Program program{"autograd-cut", &lines};
  std::vector<TensorId> reached = {2};

  explicit CutSteps(const std::vector<Registered>& net = kNet) {
    program.attach(1, net);
    program.roots = {kLoss};
  }
  void owned() { program.optimizer(1, {1, 2}); }
  void trunk(bool grad_mode = true) {
    program.op({.name = "aten::addmm",
                .inputs = {20, 1},
                .outputs = {21},
                .grad_mode = grad_mode,
                .stack = grad_mode ? 0U : 61U});
  }
  /// `seen`: what the loss is made of beside the head's output.
  void loss(const std::vector<TensorId>& seen, const std::vector<double>& constants = {}) {
    program.op({.name = "aten::addmm", .inputs = {20, 2}, .outputs = {29}});
    std::vector<TensorId> inputs = {29};
    inputs.insert(inputs.end(), seen.begin(), seen.end());
    program.op({.name = "aten::add", .inputs = inputs, .outputs = {kLoss}, .constants = constants});
  }
  void end_step() {
    program.backward(reached);
    program.step(1);
    program.zero_grad(1);
  }
  void detach(TensorId from = 21, TensorId to = 22) {
    program.op({.name = "aten::detach",
                .inputs = {from},
                .outputs = {to},
                .requires_grad = false,
                .stack = 64});
  }
  /// A loss without any graph.
  void dead_loss() {
    program.op({.name = "aten::mean", .inputs = {22}, .outputs = {kLoss}, .requires_grad = false});
  }
};

}  // namespace ddpscope::test
