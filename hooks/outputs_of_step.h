#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "model/count_event.h"

namespace ddpscope {

class Capture;

/// Which outputs of a surveyed step outlive the step after it: what a program keeps. Holds weak
/// references only, and beyond the surveyed step only to what is still alive.
class OutputsOfStep {
 public:
  /// Those of the calling thread.
  static OutputsOfStep& here();
  /// The calling thread has ended a step.
  static void step_ended(Capture& capture);

  void add(const at::Tensor& output, ModuleId module, const std::string& op);

 private:
  struct Output {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    ModuleId module = 0;
    std::string op;
  };
  static void drop_dead(std::vector<Output>& outputs);
  void tell(Capture& capture) const;

  bool surveyed_ = false;  // the step that ended last
  std::vector<Output> of_step_;
  std::vector<Output> of_step_before_;
};

}  // namespace ddpscope
