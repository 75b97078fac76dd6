#include "hooks/update_order.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "hooks/capture.h"

namespace ddpscope {
namespace {
constexpr std::uint64_t kMostWrites = 8192;  // more between two backwards are not read

struct WritesTo {
  std::uint64_t storage = 0;
  std::uint64_t first = 0;  ///< numbers of the log
  std::uint64_t last = 0;
  std::uint32_t count = 0;
};

struct WritesBetween {
  std::mutex mutex;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::vector<WritesTo> by_storage;

  void read(const WriteLog& log, std::uint64_t begin, std::uint64_t end) {
    from = begin;
    to = end;
    by_storage.clear();
    log.each_since(begin, [&](const WriteRecord& record, std::uint64_t number) {
      if (number < end) by_storage.push_back({record.storage, number, number, 1});
    });
    std::ranges::stable_sort(by_storage, {}, &WritesTo::storage);
    merge();
  }
  void merge() {
    std::size_t kept = 0;
    for (const WritesTo& one : by_storage) {
      if (kept > 0 && by_storage[kept - 1].storage == one.storage) {
        by_storage[kept - 1].last = one.last;
        ++by_storage[kept - 1].count;
      } else {
        by_storage[kept++] = one;
      }
    }
    by_storage.resize(kept);
  }
  const WritesTo* to_memory_of(const c10::TensorImpl& impl) const {
    const std::uint64_t storage = storage_of(impl);
    if (storage == 0) return nullptr;
    const auto at = std::ranges::lower_bound(by_storage, storage, {}, &WritesTo::storage);
    return at != by_storage.end() && at->storage == storage ? &*at : nullptr;
  }
};

WritesBetween& writes_between() {
  static auto* const leaked = new WritesBetween;
  return *leaked;
}

std::atomic<std::uint64_t> backward_began{0};  // the number of the next write then
std::atomic<TensorSlot*> last_leaf{nullptr};
std::atomic<std::int64_t> last_backward{-1};  // those that had ended when its gradient came
std::atomic<bool> last_was_written{false};
}  // namespace

void UpdateOrder::gradient_arrived(TensorSlot& slot, std::int64_t backwards) noexcept {
  last_leaf.store(&slot, std::memory_order_relaxed);
  last_backward.store(backwards, std::memory_order_relaxed);
}

bool UpdateOrder::leaf_was_written(Capture& capture) {
  TensorSlot* const slot = last_leaf.load(std::memory_order_relaxed);
  const std::int64_t ended = capture.marker().backwards();
  if (slot == nullptr || last_backward.load(std::memory_order_relaxed) + 1 != ended) {
    return last_was_written.load(std::memory_order_relaxed);
  }
  const at::Tensor leaf = capture.tensors().lock(*slot);
  const bool is_written = leaf.defined() && version_of(*leaf.unsafeGetTensorImpl()) !=
                                                slot->version.load(std::memory_order_relaxed);
  last_was_written.store(is_written, std::memory_order_relaxed);
  return is_written;
}

void UpdateOrder::see_backward(const WriteLog& writes) noexcept {
  backward_began.store(writes.next(), std::memory_order_relaxed);
}

bool UpdateOrder::gradient_outlived_update(const WriteLog& writes, const TensorSlot& slot,
                                           const at::Tensor& leaf) {
  const std::uint64_t since = slot.next_write.load(std::memory_order_relaxed);
  const std::uint64_t end = backward_began.load(std::memory_order_relaxed);
  const c10::TensorImpl* const gradient = leaf.grad().unsafeGetTensorImpl();
  if (gradient != slot.gradient.load(std::memory_order_relaxed) || since < writes.oldest() ||
      end <= since || end - since > kMostWrites) {
    return false;
  }
  WritesBetween& between = writes_between();
  const std::lock_guard lock(between.mutex);
  if (since < between.from || end != between.to) between.read(writes, since, end);
  const WritesTo* const update = between.to_memory_of(*leaf.unsafeGetTensorImpl());
  const WritesTo* const change = between.to_memory_of(*gradient);
  if (update == nullptr || change == nullptr || change->last > update->first) return false;
  // A change that the log does not have may have cleared it after the update.
  const std::uint32_t moved =
      version_of(*gradient) - slot.gradient_version.load(std::memory_order_relaxed);
  return moved <= change->count;
}
}  // namespace ddpscope
