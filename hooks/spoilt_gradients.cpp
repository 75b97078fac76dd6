#include "hooks/spoilt_gradients.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "hooks/capture.h"
#include "hooks/value_reader.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxLeaves = 1 << 12;

struct Leaf {
  TensorSlot* slot = nullptr;
  TensorId id = 0;
  bool operator==(const Leaf&) const = default;
};

struct Leaves {
  std::mutex mutex;
  std::vector<Leaf> all;
};

std::atomic<bool> any{false};

Leaves& leaves() {
  static auto* const leaked = new Leaves;
  return *leaked;
}

enum class Now : std::uint8_t { kGone, kSpoilt, kRepaired };

Now look_at(Capture& capture, const Leaf& leaf) {
  if (leaf.slot->id.load(std::memory_order_relaxed) != leaf.id) return Now::kGone;
  const at::Tensor alive = capture.tensors().lock(*leaf.slot);
  if (!alive.defined() || !has_gradient(alive)) return Now::kGone;
  return range_of(alive.grad()).is_finite() ? Now::kRepaired : Now::kSpoilt;
}
}  // namespace

void note_spoilt(TensorSlot& slot) {
  Leaves& known = leaves();
  const Leaf leaf{&slot, slot.id.load(std::memory_order_relaxed)};
  const std::lock_guard lock(known.mutex);
  if (known.all.size() >= kMaxLeaves || std::ranges::find(known.all, leaf) != known.all.end()) {
    return;
  }
  known.all.push_back(leaf);
  any.store(true, std::memory_order_relaxed);
}

void tell_repaired(Capture& capture) {
  if (!any.load(std::memory_order_relaxed)) return;
  GradientsRepairedEvent event{.at = capture.marker().now(), .tensors = {}};
  Leaves& known = leaves();
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.all, [&](const Leaf& leaf) {
    const Now now = look_at(capture, leaf);
    if (now == Now::kRepaired) event.tensors.push_back(leaf.id);
    return now != Now::kSpoilt;
  });
  any.store(!known.all.empty(), std::memory_order_relaxed);
  if (!event.tensors.empty()) capture.put_large(std::move(event));
}

}  // namespace ddpscope
