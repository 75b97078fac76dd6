#pragma once

namespace at {
class Tensor;
}

namespace ddpscope {

/// Each tensor that autograd saves, and each that backward asks for again.
bool install_saved_watch() noexcept;

/// Remembers where the node that made `tensor` was made: now.
void note_creation(const at::Tensor& tensor) noexcept;

}  // namespace ddpscope
