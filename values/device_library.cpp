#include <cstdio>
#include <exception>

#include "values/device_pass.h"

#define DDPSCOPE_EXPORT __attribute__((visibility("default")))

namespace ddpscope {
namespace {
class CudaPass final : public DevicePass {
 public:
  explicit CudaPass(DeviceValues::Capacity capacity) : values_(capacity) {}
  bool launch(std::span<const TensorData> tensors, CUstream_st* stream) noexcept override {
    return values_.launch(tensors, stream);
  }
  bool is_ready() noexcept override { return values_.is_ready(); }
  std::span<const TensorValues> results() noexcept override { return values_.results(); }
  std::string_view failure() const noexcept override { return values_.failure(); }

 private:
  DeviceValues values_;
};
}  // namespace

extern "C" {
DDPSCOPE_EXPORT DevicePass* ddpscope_make_device_pass(const DeviceValues::Capacity* capacity,
                                                      char* error, std::size_t error_size) {
  try {
    return new CudaPass(*capacity);
  } catch (const std::exception& thrown) {
    std::snprintf(error, error_size, "%s", thrown.what());
    return nullptr;
  }
}

DDPSCOPE_EXPORT bool ddpscope_is_capturing(CUstream_st* stream) {
  return DeviceValues::is_capturing(stream);
}
}

}  // namespace ddpscope
