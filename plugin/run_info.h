#pragma once

#include <map>
#include <string>

#include "config/env.h"
#include "config/settings.h"
#include "model/run_record.h"

namespace ddpscope {

/// First line of the rank file, from the process itself: id, host, pid, command, start.
RunRecord describe_run(const RankEnvironment& ranks, const Settings& settings);

/// Ids of the checks that the settings enable, and why some of them cannot run: a source they need
/// is not live, or the level is too low.
void add_coverage(RunRecord& run, const Settings& settings);

/// From where the program stands now: it may change its folder while it runs.
std::string absolute_path(const std::string& path);
/// From where it stood when it was started, or when it loaded ddpscope.
std::string path_from_start(const std::string& path);
void keep_start_directory() noexcept;

}  // namespace ddpscope
