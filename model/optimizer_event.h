#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

struct OptimizerMember {
  TensorId tensor = 0;
  bool requires_grad = false;
  bool grad_defined = false;
  std::uint64_t storage = 0;  ///< now: a load may have given the tensor other memory; 0: not known
  std::int64_t storage_offset_bytes = 0;
};

struct GroupOptions {
  double weight_decay = 0;
  double momentum = 0;  ///< beta1 of Adam
  double learning_rate = 0;
  std::optional<double> eps = {};  ///< added to what the step divides by
  std::uint64_t others = 0;        ///< a hash: second beta, eps, dampening, flags
};

/// The members of an optimizer by group. Sent before the step in which they or the options but the
/// rates differ from the last.
struct OptimizerMembersEvent {
  Stamp at;
  OptimizerId optimizer = 0;
  std::string type;
  std::string name;
  std::vector<std::vector<OptimizerMember>> groups;
  std::vector<GroupOptions> options;  ///< by group; empty: not known
};

/// The options of an optimizer where a rate differs from the last. Sent before that step.
struct OptimizerRatesEvent {
  Stamp at;
  OptimizerId optimizer = 0;
  std::vector<GroupOptions> options;  ///< by group
};

/// An optimizer begins its first step, hooks at rest or not; with its state, where ranks are
/// compared and its class is known.
struct OptimizerStateEvent {
  Stamp at;
  OptimizerId optimizer = 0;
  bool is_known = false;
  std::int64_t members = 0;  ///< that have any
  std::uint64_t fingerprint = 0;
};

/// A member whose gradient was defined and all zero when its optimizer stepped.
struct ZeroGradient {
  TensorId tensor = 0;
  double update_ratio = 0;  ///< 2-norm of what the step changed, over that of the parameter
};

/// Sent after a step and before its `OptimizerStepEvent` if there is such a member; level values.
struct ZeroGradientsEvent {
  Stamp at;
  OptimizerId optimizer = 0;
  std::vector<ZeroGradient> members;
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
  bool repeated = false;  ///< some members have gradients, and all are as at the last step of these
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
  double wall_ms = 0;                ///< of the step that ended
  double overhead_us = 0;            ///< of it, spent in hooks
  std::int64_t unix_ns = 0;          ///< of its end
  std::int32_t compute_threads = 0;  ///< that an operator of this thread may use
  std::int32_t loader_threads = 0;   ///< of data loaders, alive now
  IssuedCalls calls;
};

}  // namespace ddpscope
