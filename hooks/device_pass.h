#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "values/device_values.h"

namespace ddpscope {

/// What reads values on a device; each as in `DeviceValues`, which training uses.
class DevicePass {
 public:
  virtual ~DevicePass() = default;
  virtual bool launch(std::span<const TensorData> tensors, CUstream_st* stream) noexcept = 0;
  virtual bool is_ready() noexcept = 0;
  virtual std::span<const TensorValues> results() noexcept = 0;
  virtual std::string_view failure() const noexcept = 0;
};

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

}  // namespace ddpscope
