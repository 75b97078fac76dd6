#include "hooks/quiet_buffers.h"

#include <algorithm>

#include "hooks/capture.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kQuietSteps = 16;
}  // namespace

void QuietBuffers::follow(Capture& capture, const std::vector<at::Tensor>& registered) {
  std::vector<Buffer> buffers;
  for (const at::Tensor& tensor : registered) {
    const TensorId id = capture.id_of(tensor);
    if (std::ranges::find(buffers, id, &Buffer::id) != buffers.end()) continue;
    const auto known = std::ranges::find(buffers_, id, &Buffer::id);
    if (known != buffers_.end()) {
      buffers.push_back(std::move(*known));
      known->id = 0;
      continue;
    }
    buffers.push_back({.impl = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
                       .id = id,
                       .version = version_of(*tensor.unsafeGetTensorImpl()),
                       .steps_at_write = capture.marker().completed_steps()});
  }
  buffers_ = std::move(buffers);
}

void QuietBuffers::step_ended(Capture& capture) {
  const std::int64_t steps = capture.marker().completed_steps();
  for (Buffer& buffer : buffers_) {
    const auto impl = buffer.impl.lock();
    if (!impl.defined()) continue;
    if (const std::uint32_t version = version_of(*impl); version != buffer.version) {
      buffer.version = version;
      buffer.steps_at_write = steps;
      buffer.told = false;
    } else if (!buffer.told && steps - buffer.steps_at_write >= kQuietSteps) {
      buffer.told = true;
      capture.put(QuietBufferEvent{.at = capture.marker().now(), .tensor = buffer.id});
    }
  }
}

void QuietBuffers::append_to(std::vector<at::Tensor>& tensors) const {
  for (const Buffer& buffer : buffers_) {
    if (auto impl = buffer.impl.lock(); impl.defined()) tensors.emplace_back(std::move(impl));
  }
}

}  // namespace ddpscope
