#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/autograd_event.h"
#include "model/finding.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// LibTorch threw. Sent before `OperatorFailedEvent`, on every step.
struct ErrorEvent {
  Stamp at;
  std::string message;
  ModuleId module = 0;
  Phase phase = Phase::kForward;  ///< of the training loop
  bool grad_mode = true;
  ModuleId asked_mode = 0;  ///< whose `is_training` this thread asked last; it may be gone
  StackId stack = 0;        ///< at every level
};

/// An input of an operator that threw.
struct FailedInput {
  TensorInfo tensor;
  std::vector<std::int64_t> strides;
};

/// The operator that the program called was left by an exception: the outermost one, whatever it
/// called itself. Sent at its end, on survey steps.
struct OperatorFailedEvent {
  Stamp at;
  std::string op;
  std::string message;  ///< of the last exception that LibTorch threw on this thread
  ModuleId module = 0;
  bool in_backward = false;
  std::vector<FailedInput> inputs;
};

/// The program's own end: normal exit, `std::terminate` or a flush that closes the run.
struct ExitEvent {
  Stamp at;
  /// Where hooks rested as much as they may, to keep to the budget: shares of the time.
  struct Rested {
    std::int64_t since_step = 0;
    double cost_ratio = 0;
    double budget_ratio = 0;
    std::int64_t latency_steps = 0;  ///< what lasts is seen so many steps later, at most
    bool values_alone = false;       ///< only passes over values were left out
  };
  std::optional<Rested> rested = {};
};

/// `count` older events were lost because the queue was full.
struct DroppedEvent {
  std::int64_t count = 0;
};

}  // namespace ddpscope
