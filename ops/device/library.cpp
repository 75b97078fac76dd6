#include "ops/device/kernels.h"

namespace ddpscope::cuda {

extern "C" {
__attribute__((visibility("default"))) const DeviceKernels* ddpscope_device_kernels() {
  return &kDeviceKernels;
}
}

}  // namespace ddpscope::cuda
