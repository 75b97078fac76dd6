#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <mutex>

#include "hooks/tensor_registry.h"
#include "model/hot_code.h"

namespace ddpscope {

/// Where the values of a tensor on any device begin; null where it has no memory of its own kind.
DDPSCOPE_HOT const void* values_of(const c10::TensorImpl& impl) noexcept;

/// Finds the leaf to whose gradient a tensor's values belong, whichever tensor object reads them.
/// Readers take no lock: an entry that is overwritten meanwhile leads to another slot, and is asked
/// for the gradient it has. As large as it must be, for a look at a large one is a page that nobody
/// else uses. Beyond its largest size gradients are not found.
class GradientTable {
 public:
  constexpr GradientTable() = default;
  /// Remembers the gradient that `leaf` has now.
  void put(TensorSlot& slot, const at::Tensor& leaf) noexcept;
  /// The slot whose gradient lay there when it was last put; null if there is none.
  DDPSCOPE_HOT TensorSlot* find(const void* values) const noexcept;

 private:
  struct Entry {
    std::atomic<const void*> values{nullptr};
    std::atomic<TensorSlot*> slot{nullptr};
  };
  /// Where entries are; smaller ones that were in use before are never freed.
  struct Entries {
    Entry* at = nullptr;
    std::size_t count = 0;  ///< a power of two
    Entry& probed(const void* values, std::size_t probe) const noexcept;
  };
  static constexpr std::size_t kFirst = 256;
  static constexpr std::size_t kMost = 16384;
  static constexpr std::size_t kProbes = 8;
  static bool is_stale(const Entry& entry) noexcept;
  static bool put_in(const Entries& entries, TensorSlot& slot, const void* values) noexcept;
  const Entries* grow(const Entries* full) noexcept;

  std::array<Entry, kFirst> first_{};
  Entries first_entries_{first_.data(), kFirst};
  std::atomic<const Entries*> entries_{&first_entries_};
  std::mutex growth_;
};

DDPSCOPE_HOT GradientTable& gradient_table() noexcept;

}  // namespace ddpscope
