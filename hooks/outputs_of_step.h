#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "hooks/near_tls.h"
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
  static void step_ended(Capture& capture) {
    if (is_awaited_) here().end_step(capture);
  }

  void add(const at::Tensor& output, ModuleId module, const std::string& op);

 private:
  struct Output {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    ModuleId module = 0;
    std::string op;
  };
  void end_step(Capture& capture);
  static void drop_dead(std::vector<Output>& outputs);
  void tell(Capture& capture) const;

  /// The calling thread has outputs of this step, or of the one before.
  DDPSCOPE_NEAR static inline constinit thread_local bool is_awaited_ = false;

  bool surveyed_ = false;  // the step that ended last
  std::vector<Output> of_step_;
  std::vector<Output> of_step_before_;
};

}  // namespace ddpscope
