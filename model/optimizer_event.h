#pragma once

#include <string>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

struct OptimizerMember {
  TensorId tensor = 0;
  bool requires_grad = false;
  bool grad_defined = false;
};

/// The members of an optimizer by group. Sent before the step in which they differ from the last.
struct OptimizerMembersEvent {
  Stamp at;
  OptimizerId optimizer = 0;
  std::string type;
  std::string name;
  std::vector<std::vector<OptimizerMember>> groups;
};

struct OptimizerCreatedEvent {
  Stamp at;
  OptimizerId optimizer = 0;
};

/// One finished `step()`.
struct OptimizerStepEvent {
  Stamp at;
  OptimizerId optimizer = 0;
  bool with_closure = false;
  bool threw = false;
};

/// Gradients were cleared through an optimizer or through a module.
struct ZeroGradEvent {
  Stamp at;
  OptimizerId optimizer = 0;
  ModuleId module = 0;
};

/// The end of a cycle; checks.md section 1.1.
struct CycleEndEvent {
  Stamp at;
  double wall_ms = 0;      ///< of the step that ended
  double overhead_us = 0;  ///< of it, spent in hooks
};

}  // namespace ddpscope
