#pragma once

#include <memory>

#include "values/device_pass.h"

namespace ddpscope {

/// The devices of one kind.
class DevicePasses {
 public:
  virtual ~DevicePasses() = default;
  /// The number of the device that is current on the calling thread.
  virtual int current_device() = 0;
  /// The stream that is current on that device for the calling thread.
  virtual CUstream_st* stream_of(int device) = 0;
  /// For the device that is current; null while `stream` is captured into a graph.
  /// @throws std::exception that says why there can be none.
  virtual std::unique_ptr<DevicePass> make(DeviceValues::Capacity capacity,
                                           CUstream_st* stream) = 0;
};

/// Those of the GPU. Needs nothing of LibTorch for CUDA but what registered itself in c10.
DevicePasses& cuda_passes();
/// Whether this build of ddpscope has what they need.
bool has_cuda_passes() noexcept;

}  // namespace ddpscope
