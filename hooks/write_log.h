#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "hooks/last_writes.h"
#include "hooks/packed_doing.h"
#include "hooks/shared_slots.h"

namespace ddpscope {

/// The bytes of a storage that a tensor covers: rows of `row_bytes` every `stride` bytes within
/// [begin, end).
struct ByteRows {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t stride = 0;
  std::uint64_t row_bytes = 0;
};
ByteRows bytes_of(const c10::TensorImpl& impl) noexcept;
/// Columns of one matrix lie between each other without sharing a byte.
bool overlap(const ByteRows& a, const ByteRows& b) noexcept;

/// One write by an operator. A slot of the log is one cache line.
struct WriteRecord {
  std::uint64_t counter = 0;  ///< the version counter it moved
  std::uint64_t storage = 0;
  PackedDoing by;
  std::uint32_t version = 0;  ///< after it
  std::uint32_t hidden = 0;  ///< other tensors share the memory, but not the version counter: which
                             ///< such write this is, from 1
  std::uint64_t op = 0;      ///< place in the list of writers
};
static_assert(sizeof(WriteRecord) == 56);

/// The identity of the version counter that `impl` and its aliases share; 0 without one.
std::uint64_t counter_of(const c10::TensorImpl& impl) noexcept;

/// The identity of its memory; 0 without one.
std::uint64_t storage_of(const c10::TensorImpl& impl) noexcept;

/// The newest writes of all threads.
class WriteLog {
 public:
  explicit WriteLog(std::size_t history) : slots_(history), hidden_bytes_(history / 4) {}

  void put(const at::Tensor& written, std::uint16_t op, const Doing& by) noexcept;
  /// The number that the next write gets; the first has 1.
  std::uint64_t next() const noexcept { return next_.load(std::memory_order_relaxed); }
  /// What hooks watch has changed: what was made before was seen, or what is made from here on.
  void begin_watch() noexcept { watched_since_.store(next(), std::memory_order_relaxed); }
  /// The first write that may be to a tensor which nobody saw being made.
  std::uint64_t watched_since() const noexcept {
    return watched_since_.load(std::memory_order_relaxed);
  }
  /// For a write that is told elsewhere: it stands among the others.
  std::uint64_t take_number() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }
  std::int64_t history() const noexcept { return static_cast<std::int64_t>(slots_.size()); }
  /// The oldest number that is still remembered.
  std::uint64_t oldest() const noexcept;
  bool any_hidden() const noexcept { return any_hidden_.load(std::memory_order_relaxed); }
  /// No hidden write to the storage of `impl` has a higher number; 0: there was none.
  std::uint64_t last_hidden(const c10::TensorImpl& impl) const noexcept {
    return last_hidden_.of(storage_of(impl)).number;
  }
  /// Whether there was one since number `since`.
  bool was_hidden_written(const c10::TensorImpl& impl, std::uint64_t since) const;

  struct Found {
    std::optional<WriteRecord> first;
    std::int64_t writes = 0;
  };
  /// Visits the writes since number `since` that are still remembered, in their order, with their
  /// numbers.
  template <class Visit>
  void each_since(std::uint64_t since, Visit&& visit) const {
    const std::uint64_t end = next();
    for (std::uint64_t number = std::max(since, oldest()); number < end; ++number) {
      const std::optional<WriteRecord> record = slots_.find(number, number);
      if (record.has_value()) visit(*record, number);
    }
  }
  /// Writes since number `since` that moved the version counter of `impl` beyond `version`.
  Found moved_beyond(const c10::TensorImpl& impl, std::uint32_t version, std::uint64_t since) const;
  /// Hidden writes since number `since` to bytes of `impl`.
  Found hidden_in(const c10::TensorImpl& impl, std::uint64_t since) const;

 private:
  template <class Matches>
  Found search(std::uint64_t since, Matches&& matches) const;

  void put_hidden(const c10::TensorImpl& impl, WriteRecord& record, std::uint64_t number) noexcept;

  SharedSlots<WriteRecord> slots_;
  SharedSlots<ByteRows> hidden_bytes_;
  std::atomic<std::uint32_t> hidden_count_{0};
  std::atomic<std::uint64_t> next_{1};
  std::atomic<std::uint64_t> watched_since_{1};
  std::atomic<bool> any_hidden_{false};
  LastWrites last_hidden_;
};

}  // namespace ddpscope
