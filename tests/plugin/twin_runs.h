#pragma once

#include "tests/support/torch_test.h"

namespace ddpscope::test {

/// What a program writes down of itself: the same with and without ddpscope. Any process of a run
/// may write; processes and threads take turns by their own means.
class Notes {
 public:
  explicit Notes(int file) : file_(file) {}
  void text(const std::string& line) const;
  /// Shape and bits.
  void bits(const at::Tensor& tensor) const;
  /// Parameters, gradients and buffers, and the state of the generator of random numbers.
  void state_of(const torch::nn::Module& module) const;

 private:
  int file_;
};

/// Trains with SGD and writes down each loss and the state at the end.
void train_noted(const Notes& notes, Net& net, int steps = 6);

/// Runs `program` in two children of their own, first with ddpscope off, then on. Both must write
/// the same and end alike; the second must have reported. Gives what became of it.
Outcome twin_runs(const std::function<int(const Notes&)>& program);

}  // namespace ddpscope::test
