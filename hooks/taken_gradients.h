#pragma once

#include <ATen/record_function.h>

#include "model/backward_event.h"

namespace ddpscope {

class Capture;

/// Whether the program takes gradients from where backward leaves them, as for a sum of clipped
/// ones or for the rows of a Jacobian. Of each thread, as surveys see it, from level values on.
class TakenGradients {
 public:
  /// Before an operator that the program calls: where the memory of a gradient that it reads is; 0
  /// if it reads none, or only measures it.
  static std::uint64_t read_by(Capture& capture, const at::RecordFunction& function);
  /// After it, where it reads one.
  static void see_result(Capture& capture, const at::RecordFunction& function,
                         std::uint64_t gradient);
  /// What was seen since the last call.
  static GradientFate take() noexcept;
};

}  // namespace ddpscope
