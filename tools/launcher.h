#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/process_environment.h"

namespace ddpscope {

/// How long the launcher waits, in milliseconds.
struct LaunchTimes {
  std::int64_t settle_ms = 1000;        ///< from the first failure to SIGTERM for the others
  std::int64_t terminate_ms = 5000;     ///< from SIGTERM to SIGKILL
  std::int64_t interrupted_ms = 30000;  ///< from a forwarded SIGINT, SIGTERM, SIGHUP to SIGKILL
  std::int64_t output_ms = 1000;        ///< from the end of a rank to giving up its open pipes
  std::int64_t part_ms = 500;           ///< an incomplete line is shown after this
};

struct LaunchPlan {
  std::vector<std::string> argv;
  std::vector<ProcessEnvironment> environments;  ///< one per rank
  int log_dir = -1;  ///< open folder that gets `rank-<r>.log`; -1: no logs
  LaunchTimes times;
};

/// How one rank ended.
struct RankEnd {
  int code = 0;    ///< exit code, where `signal` is 0
  int signal = 0;  ///< that killed it, or 0
  std::int64_t after_ms = 0;
  std::int64_t ended_unix_ns = 0;
  bool stopped = false;  ///< by us, because another rank had failed
  std::string last_error_line;

  bool failed() const { return code != 0 || signal != 0; }
  /// As a shell gives it: 128+n for a signal.
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
};

struct LaunchResult {
  std::vector<RankEnd> ranks;
  std::optional<std::size_t> first_failure;
  int ended_by = 0;     ///< signal that the launcher was given before any rank failed, or 0
  int start_error = 0;  ///< errno, where the program could not be started
};

/// Runs the ranks to their end: shows their output with a prefix, stores it, forwards signals and
/// stops all when one fails. Returns in bounded time after the first failure or signal.
LaunchResult launch(const LaunchPlan& plan);

/// `rank 1 failed first: killed by SIGKILL (signal 9) after 3.2 s`
std::string describe_failure(std::size_t rank, const RankEnd& end);

}  // namespace ddpscope
