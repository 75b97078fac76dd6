#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/run_record.h"

namespace ddpscope {

/// The value of an environment variable; nothing if it is not set. The project's only getenv.
std::optional<std::string> environment(const char* name);

/// Which rank of how many this process is, and who said so.
struct RankEnvironment {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t local_rank = 0;
  std::int64_t local_world_size = 1;  ///< ranks on this host, as far as they are known
  std::string source = "none";        ///< variables that decided, such as "RANK/WORLD_SIZE"
  std::string launch;  ///< equal on all hosts of one launch, of no other; empty if not known
  std::vector<std::string> messages;  ///< one line for each value that was set and is no use
};

using EnvironmentLookup = std::function<std::optional<std::string>(const char*)>;

/// Reads rank, world size and local rank as docs/settings.md lists the variables.
RankEnvironment rank_environment(const EnvironmentLookup& lookup = environment);

}  // namespace ddpscope
