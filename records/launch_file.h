#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "records/rank_file.h"

namespace ddpscope {

inline constexpr char kLaunchFileName[] = "launch.json";
/// Set for ranks whose launcher prints the verdict.
inline constexpr char kLauncherVariable[] = "DDPSCOPE_LAUNCHER";

/// How a rank ended, as its launcher saw it.
struct LaunchedRank {
  std::int64_t rank = 0;
  std::int64_t code = 0;  ///< exit code, where `signal` is empty
  std::string signal;     ///< that killed it: SIGKILL
  std::int64_t ended_unix_ns = 0;
  bool stopped = false;  ///< the launcher had stopped it, because another rank failed
};

struct LaunchRecord {
  std::string run_id;
  std::vector<LaunchedRank> ranks;
};

/// Writes `<dir>/launch.json`. Returns an error text, or nothing.
std::string write_launch_file(const std::string& dir, const LaunchRecord& launch);

/// Reads one and trusts nothing in it; docs/report-format.md.
std::variant<LaunchRecord, ReadProblem> read_launch_file(const std::string& path);

}  // namespace ddpscope
