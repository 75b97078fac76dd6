#pragma once

#include <string>

#include "model/tensor_info.h"

namespace ddpscope {

/// LibTorch threw.
struct ErrorEvent {
  Stamp at;
  std::string message;
  ModuleId module = 0;
};

/// The program's own end: normal exit, `std::terminate` or a flush that closes the run.
struct ExitEvent {
  Stamp at;
};

/// `count` older events were lost because the queue was full.
struct DroppedEvent {
  std::int64_t count = 0;
};

}  // namespace ddpscope
