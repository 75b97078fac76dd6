#pragma once

#include <cstddef>
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

/// The functions of libddpscope_device.so. It holds the CUDA runtime, whose thread-local storage is
/// too large for a library that is opened late, and is opened when a program uses a GPU.
extern "C" {
/// For the device that is current, owned by the caller; null with a sentence in `error`.
using MakeDevicePass = DevicePass*(const DeviceValues::Capacity* capacity, char* error,
                                   std::size_t error_size);
MakeDevicePass ddpscope_make_device_pass;
using IsCapturing = bool(CUstream_st* stream);
IsCapturing ddpscope_is_capturing;
}

}  // namespace ddpscope
