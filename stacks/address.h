#pragma once

#include <cstdint>

namespace ddpscope {

/// Addresses of stacks, of code and of loaded objects come as numbers.
template <typename T>
T* pointer_to(std::uintptr_t address) noexcept {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace ddpscope
