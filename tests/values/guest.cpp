#include "values/device_values.h"
#include "values/tensor_values.h"

// A library that takes the values along, as libddpscope.so does.
extern "C" __attribute__((visibility("default"))) double values_guest(const float* data, int size) {
  const ddpscope::TensorData tensor = {data, size, ddpscope::ScalarKind::kFloat};
  if (!ddpscope::DeviceValues::why_unavailable().empty()) {
    return ddpscope::measure_values(tensor).absmax;
  }
  ddpscope::DeviceValues device({.tensors = 1, .elements = size});
  return device.launch({&tensor, 1}, nullptr) ? 1 : 0;
}
