#pragma once

#include <string>

#include "checks/allocation_failure.h"
#include "checks/memory_classes.h"
#include "checks/thrown_in.h"
#include "model/count_event.h"
#include "model/error_event.h"
#include "model/finding.h"

namespace ddpscope {

/// An allocation that failed, and what the run held then.
struct OutOfMemory {
  AllocationFailure failure;
  MemoryUse use;
  MemoryClass asked_for = MemoryClass::kOther;  ///< what the request would have held
  bool grad_mode = true;
  std::int64_t free_bytes = 0;  ///< 0: not known
  std::int64_t step = 0;
  Phase phase = Phase::kForward;
  std::string model;
  std::string module_path;
  std::string op;
  Site site;         ///< without frames where no stack was taken
  std::string line;  ///< of the program, which called the operator; "" if it is not known
};

OutOfMemory out_of_memory(const AllocationFailure& failure, const ErrorEvent& event,
                          const RunState& state);
/// The operator and the line by the stack.
void add_stack(ThrownIn thrown, OutOfMemory& what);
/// The operator that the exception left.
void add_operator(const OperatorFailedEvent& event, const RunState& state, OutOfMemory& what);

/// Says at which step memory that grows so is full, where a limit is known.
void add_limit(double bytes_per_step, std::int64_t step, const HostCountsEvent& host,
               Finding& finding);

/// The finding of memory-out-of-memory.
Finding finding_about(const OutOfMemory& what);

}  // namespace ddpscope
