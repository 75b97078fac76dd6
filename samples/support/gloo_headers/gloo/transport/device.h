#pragma once

namespace gloo::transport {
class Device;
/// Complete, because c10d deletes it through a unique_ptr member.
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};
}  // namespace gloo::transport
