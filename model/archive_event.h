#pragma once

#include <string>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

enum class ArchiveAccess : std::uint8_t {
  kRead,     ///< the archive held the name, and the tensor now holds what the archive held
  kMissing,  ///< the archive does not hold the name
  kWritten,
};

/// One tensor that was read from or written to an archive by name. Sent after the call, except
/// inside an optimizer's own load and save.
struct ArchiveTensorEvent {
  Stamp at;
  std::uint64_t archive = 0;  ///< names one load or save: archives nested in it have the same
  ArchiveAccess access = ArchiveAccess::kRead;
  std::string key;
  TensorId tensor = 0;
  bool changed = false;  ///< by a read: its bytes, shape or dtype differ from before
  std::vector<std::int64_t> old_shape;
  std::string old_dtype;
  TensorInfo now;  ///< after a read, but its dtype is that in the archive
};

}  // namespace ddpscope
