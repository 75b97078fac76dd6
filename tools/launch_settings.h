#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/process_environment.h"

namespace ddpscope {

/// One key of the variable `DDPSCOPE` that the launcher decides.
struct SettingOverride {
  std::string key;
  std::string value;
};

/// `value` of the variable `DDPSCOPE` with `overrides` in place of what it said about those keys.
/// An on-word or nothing becomes the overrides alone.
std::string with_overrides(std::string_view value, const std::vector<SettingOverride>& overrides);

/// What every rank of one launch shares.
struct RankEnvironments {
  ProcessEnvironment base;
  int world_size = 1;
  int master_port = 0;
};
/// One environment per rank with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
std::vector<ProcessEnvironment> rank_environments(const RankEnvironments& launch);

/// A TCP port of 127.0.0.1 that nobody listens on.
int free_port();
/// Equal for the ranks of this launch, different for every other one: `DDPSCOPE_RUN_ID`.
std::string new_run_id();

struct PreloadSearch {
  std::string path;     ///< empty: none
  std::string problem;  ///< why not, where `path` is empty
};
/// Looks for libddpscope_preload.so in `folders`, relative to `executable_dir`.
PreloadSearch find_preload(const std::string& executable_dir,
                           const std::vector<std::string>& folders);
/// Puts `path` before what LD_PRELOAD already names.
void add_preload(ProcessEnvironment& environment, const std::string& path);

}  // namespace ddpscope
