#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "records/file_descriptor.h"
#include "tools/process_environment.h"

namespace ddpscope {

/// A started rank: leader of its own process group, killed by the kernel when the launcher dies.
struct RankProcess {
  pid_t pid = -1;
  FileDescriptor output;
  FileDescriptor errors;
};

struct StartResult {
  RankProcess process;
  int error = 0;  ///< errno of fork or exec; 0 exactly when the program runs
};

/// Starts `argv` (looked up in PATH). The child gets `signal_mask_before` and default signals.
StartResult start_rank(const std::vector<std::string>& argv, ProcessEnvironment environment,
                       const sigset_t& signal_mask_before);

}  // namespace ddpscope
