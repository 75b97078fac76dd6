#include <stdexcept>

#include "values/device_values.h"

namespace ddpscope {

struct DeviceValues::State {};

std::string DeviceValues::why_unavailable() { return "this build of ddpscope has no CUDA part"; }

bool DeviceValues::is_capturing(CUstream_st* /*stream*/) noexcept { return false; }

DeviceValues::DeviceValues(Capacity /*capacity*/) { throw std::runtime_error(why_unavailable()); }

DeviceValues::~DeviceValues() = default;

bool DeviceValues::launch(std::span<const TensorData> /*tensors*/,
                          CUstream_st* /*stream*/) noexcept {
  return false;
}

bool DeviceValues::is_ready() noexcept { return true; }

std::span<const TensorValues> DeviceValues::results() noexcept { return {}; }

std::string_view DeviceValues::failure() const noexcept { return {}; }

}  // namespace ddpscope
