#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// The first part of a forward that a thread ran after it had ended a step.
struct StepWaitEvent {
  Stamp at;
  float wait_ms = 0;              ///< since the end of that step, without the time of our hooks
  float step_ms = 0;              ///< from the end of the step before that one to its end; 0: none
  std::optional<float> drawn_ms;  ///< of the wait, in operators that draw random numbers; surveys
  std::optional<float> computed_ms;  ///< in other operators; surveys
  std::int32_t loader_threads = 0;   ///< of LibTorch's data loaders, alive when the step ended
  bool archived = false;             ///< meanwhile the program read or wrote an archive
};

/// What this process takes of its host. Read by the worker when it judges the end of a cycle.
struct HostCountsEvent {
  Stamp at;
  std::int64_t resident_bytes = 0;   ///< without pages of files, which the system takes back
  std::int64_t limit_bytes = 0;      ///< of memory: of its group, else of the host; 0: not known
  std::int64_t cores = 0;            ///< that it may use, by affinity and quota; 0: not known
  std::int64_t local_ranks = 1;      ///< processes of this run that use the same cores
  bool threads_placed = false;       ///< the program said on which core each thread runs
  std::int64_t interop_threads = 0;  ///< that LibTorch has started for `at::launch`
  /// How often a thread had to leave its core to another; absent where the system counts nothing.
  std::optional<std::int64_t> preemptions;
  double uptime_ms = 0;  ///< since the first reading
};

/// Outputs of one operator and shape.
struct KeptOutputs {
  ModuleId module = 0;
  std::string op;
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< of all of them
};

/// What the operators of a surveyed step returned and is still alive at the end of the step after
/// it, the largest first; told also where nothing is. Parameters and buffers are left out.
struct KeptOutputsEvent {
  Stamp at;
  std::vector<KeptOutputs> outputs;
};

/// A convolution met an input shape and type that it had not met before in its module, while
/// `benchmarkCuDNN` was on.
struct ConvolutionShapeEvent {
  Stamp at;
  ModuleId module = 0;
  std::string op;
  std::vector<std::int64_t> shape;
  std::string dtype;
  std::string device;
};

}  // namespace ddpscope
