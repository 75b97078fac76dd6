#include <cstdlib>

#include "tests/ops/device/test_device.h"

namespace ddpscope::test {

const device::Place& test_place() {
  static const cuda::DeviceKernels kernels = {
      .clip_parts = cuda::clip_parts,
      .clip_norm = cuda::launch_clip_norm,
      .clip_join = cuda::launch_clip_join,
      .clip_write = cuda::launch_clip_write,
      .norm_workspace_items = cuda::norm_workspace_items,
      .norm_tickets = cuda::norm_tickets,
      .norm_stats = cuda::launch_stats,
      .normalize = cuda::launch_normalize,
      .norm_reduce = cuda::launch_reduce,
      .grad_input = cuda::launch_grad_input,
      .is_capturing = [](CUstream_st*) noexcept { return false; },
      .make_notice = [](std::size_t bytes) noexcept { return std::calloc(1, bytes); },
      .error_text = [](int) noexcept { return "an error"; }};
  static const device::Place place = {&kernels, c10::Device(c10::kCPU), nullptr};
  return place;
}

}  // namespace ddpscope::test
