#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>

#include "hooks/tensor_registry.h"

namespace ddpscope {

/// Where the values of a tensor on any device begin; null where it has no memory of its own kind.
const void* values_of(const c10::TensorImpl& impl) noexcept;

/// Finds the leaf to whose gradient a tensor's values belong, whichever tensor object reads them.
/// No lock: an entry that is overwritten meanwhile leads to another slot, and is asked for the
/// gradient it has. Beyond its size gradients are not found.
class GradientTable {
 public:
  /// Remembers the gradient that `leaf` has now.
  void put(TensorSlot& slot, const at::Tensor& leaf) noexcept;
  /// The slot whose gradient lay there when it was last put; null if there is none.
  TensorSlot* find(const void* values) const noexcept;

 private:
  struct Entry {
    std::atomic<const void*> values{nullptr};
    std::atomic<TensorSlot*> slot{nullptr};
  };
  static constexpr std::size_t kEntries = 16384;
  static constexpr std::size_t kProbes = 8;
  static std::size_t first_of(const void* values) noexcept;
  static bool is_stale(const Entry& entry) noexcept;

  std::array<Entry, kEntries> entries_{};
};

GradientTable& gradient_table() noexcept;

}  // namespace ddpscope
