#include "hooks/device_pass.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

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

class CudaPasses final : public DevicePasses {
 public:
  int current_device() override {
    return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->getDevice().index();
  }
  CUstream_st* stream_of(int device) override {
    const c10::Device place(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device));
    const c10::Stream stream = c10::impl::getDeviceGuardImpl(place.type())->getStream(place);
    return static_cast<CUstream_st*>(stream.native_handle());
  }
  std::unique_ptr<DevicePass> make(DeviceValues::Capacity capacity, CUstream_st* stream) override {
    if (DeviceValues::is_capturing(stream)) return nullptr;
    return std::make_unique<CudaPass>(capacity);
  }
};
}  // namespace

DevicePasses& cuda_passes() {
  static auto* const leaked = new CudaPasses;
  return *leaked;
}

}  // namespace ddpscope
