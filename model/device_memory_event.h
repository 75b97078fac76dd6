#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// A GPU as this process sees it.
struct DeviceIdentity {
  std::string uuid;  ///< `GPU-5f1c0a...`; partitions of one GPU have UUIDs of their own
  std::int64_t visible_count = 0;
};

/// What this process holds on one GPU.
struct DeviceMemory {
  std::int64_t index = 0;           ///< as in `cuda:1`
  std::int64_t reserved_bytes = 0;  ///< by LibTorch's allocator, its cache included
  std::int64_t peak_bytes = 0;      ///< of its tensors so far
  bool has_context = false;
};

/// All GPUs that this process sees. Read when a cycle has ended: the first ones, then each 64th.
struct DeviceMemoryEvent {
  Stamp at;
  std::vector<DeviceMemory> devices;
};

/// Where the GPUs of this process are asked; null where nobody can.
struct DeviceReaders {
  std::optional<DeviceIdentity> (*identify)(std::int64_t index) noexcept = nullptr;
  std::vector<DeviceMemory> (*memory)() noexcept = nullptr;
};

}  // namespace ddpscope
