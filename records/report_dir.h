#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/run_record.h"
#include "records/file_descriptor.h"
#include "records/rank_file.h"

namespace ddpscope {

struct OpenedDir {
  FileDescriptor fd;
  std::string error;  ///< empty exactly when `fd` is open
};
/// Opens a report folder, creating it and its parents (0700) where they are absent. Refuses a
/// symbolic link, and a way through a folder that another user made in a shared sticky one. Links
/// above the folder are followed: home folders often are some.
OpenedDir open_report_dir(const std::string& dir);

struct RankFileName {
  std::int64_t rank = 0;
  std::string path;
};
struct RankFileList {
  std::vector<RankFileName> files;   ///< by rank
  std::vector<ReadProblem> refused;  ///< links, folders, numbers that are no rank; by path
  std::string error;
};
/// The regular files of `dir` that are named exactly `rank-<digits>.jsonl`.
RankFileList list_rank_files(const std::string& dir);

/// The rank in `rank-<digits>.jsonl`; nothing for any other name, a leading zero or a rank > 2^20.
std::optional<std::int64_t> rank_of_file_name(std::string_view name);
std::string rank_file_name(std::int64_t rank);

/// `launch.json`, or a file of one rank: what a run writes and no report may take the place of.
bool is_run_file(std::string_view name);
/// A file that ddpscope writes into a report folder; only such files are ever moved or removed.
bool is_report_file(std::string_view name);

/// The process that wrote this rank file, if it runs on `host` and is still alive.
std::optional<std::int64_t> living_owner(const std::string& path, const std::string& host);

/// Moves the report files of an earlier run from `dir` to `<dir>.1`, where they replace older ones.
/// Does nothing where `dir` is absent. Refuses while a process on this host still writes there.
/// Returns an error text, or nothing.
std::string move_aside(const std::string& dir);

/// The run that started last; empty for no runs.
std::string newest_run_id(const std::vector<const RunRecord*>& runs);

/// Writes by temporary name and rename, whatever the umask. Refuses to replace what is no regular
/// file. Returns an error text, or nothing.
std::string write_file_atomically(const std::string& path, std::string_view text,
                                  unsigned mode = 0600);

}  // namespace ddpscope
