#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/device_memory_event.h"

namespace ddpscope {

/// Asks the driver, where the program has loaded one: it is never loaded for this, and no context
/// is made. Nothing where it does not say. On any thread.
std::optional<DeviceIdentity> identify_device(std::int64_t index) noexcept;

/// What this process holds on each GPU that it sees: empty without a driver. On any thread; takes
/// the lock of LibTorch's allocator for the length of a copy.
std::vector<DeviceMemory> read_device_memory() noexcept;

}  // namespace ddpscope
