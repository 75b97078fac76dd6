#pragma once

#include <string>

#include "model/run_record.h"
#include "records/file_descriptor.h"

namespace ddpscope {

struct ExclusiveFile {
  FileDescriptor file;
  std::string path;
  std::string error;    ///< empty exactly when `file` is open
  std::string notice;   ///< one line for the user, or empty
  FileDescriptor lock;  ///< held until the first line is written: then the owner can be read
};

/// Creates `<dir>/rank-<r>.jsonl`, mode 0600. Stale files of this rank move to `<dir>.1`;
/// if its owner is alive, `<dir>.<pid>` is used. Refuses to move what is no regular file.
ExclusiveFile open_exclusively(const std::string& dir, const RunRecord& run);

}  // namespace ddpscope
