#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/process_environment.h"

namespace ddpscope {

struct ScratchEnd {
  int start_error = 0;  ///< errno, where the program could not be started
  int code = 0;         ///< exit code, where `signal` is 0
  int signal = 0;
  bool timed_out = false;       ///< killed by us
  int interrupted = 0;          ///< the signal that asked us to stop; the process was killed
  std::string last_error_line;  ///< of its stderr

  bool failed() const { return code != 0 || signal != 0; }
};

/// Runs a program to its end and keeps what it prints to itself. It is killed after `limit_ms`, or
/// when we are told to stop. What it started and left running is killed in any case.
ScratchEnd run_scratch(const std::vector<std::string>& argv, const ProcessEnvironment& environment,
                       std::int64_t limit_ms);

}  // namespace ddpscope
