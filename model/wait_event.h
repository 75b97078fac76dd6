#pragma once

#include <vector>

#include "model/autograd_event.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// Functions in which the host waits until a device has done what it was given, or until other
/// ranks have.
enum class WaitIn : std::uint8_t { kItem, kNonzero, kMaskedSelect, kCopy, kStream, kDevice, kWork };

/// Calls of one function at one place, in each of which the host waited.
struct DeviceWait {
  WaitIn function = WaitIn::kItem;
  ModuleId module = 0;
  StackId stack = 0;
  std::int64_t count = 0;
  double waited_ms = 0;  ///< in all of them
};

/// What a step waited for its device, and for other ranks. Sent at the end of every step from the
/// first tensor of a device on; before it only of steps that read numbers on the host.
struct DeviceWaitsEvent {
  Stamp at;
  double step_ms = 0;  ///< since the end of the step before; 0: there was none
  std::int64_t host_reads =
      0;  ///< of tensors of the CPU, by operators that would wait for a device
  std::vector<DeviceWait> waits;
};

}  // namespace ddpscope
