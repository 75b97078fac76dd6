#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "hooks/last_writes.h"
#include "hooks/packed_doing.h"
#include "hooks/saved_nodes.h"
#include "hooks/shared_slots.h"

namespace at {
class Tensor;
}
namespace c10 {
struct TensorImpl;
}

namespace ddpscope {

class Capture;
struct CallFacts;
struct CollectiveEvent;

/// A collective that was given memory to write. What it found there is known of memory of the host.
struct CollectiveWrite {
  std::uint64_t storage = 0;
  std::uint64_t begin = 0;  ///< the first byte, as an address
  std::uint64_t bytes = 0;
  std::uint64_t content = 0;  ///< before it; 0: not known
  std::uint64_t number = 0;   ///< in the log of writes
  std::uint64_t seq = 0;
  std::uint64_t kind = 0;
  PackedDoing by;
};

/// Knows memory that changes without an operator: by what it held before. Of each piece up to 64
/// words at equal distances are read. No thread waits.
class ContentWatch {
 public:
  ContentWatch() : calls_(kCalls), saved_(kSaved) {}

  /// A collective is about to write tensors that are no gradients. Level `values`.
  void issued(Capture& capture, const CallFacts& facts, const CollectiveEvent& event);
  /// The first collective since number `since` that wrote into the memory of `impl`; of those that
  /// changed what was there, if asked for.
  std::optional<CollectiveWrite> written(const c10::TensorImpl& impl, std::uint64_t since,
                                         bool changed) const noexcept;
  bool any_calls() const noexcept { return any_calls_.load(std::memory_order_relaxed); }

  /// A node saves a tensor. What it holds is remembered of memory that collectives write, and in
  /// survey steps of parameters and buffers.
  void saves(Capture& capture, const NodeKey& node, const at::Tensor& tensor);
  /// Whether it holds something else now; nothing where it was not remembered.
  std::optional<bool> has_changed(const NodeKey& node, const c10::TensorImpl& impl) const noexcept;

 private:
  /// In this cycle or the one before.
  bool was_written_lately(const c10::TensorImpl& impl, std::int64_t cycle) const noexcept;

  static constexpr std::size_t kCalls = 1024;
  static constexpr std::size_t kSaved = 16384;

  SharedSlots<CollectiveWrite> calls_;
  SharedSlots<std::uint64_t> saved_;
  LastWrites last_call_;  // to each storage, by the numbers of `calls_`
  std::atomic<std::uint64_t> next_call_{1};
  std::atomic<bool> any_calls_{false};
};

}  // namespace ddpscope
