#include "hooks/spoilt_gradients.h"

#include <torch/optim.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "hooks/capture.h"
#include "hooks/value_reader.h"
#include "hooks/write_scope.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxLeaves = 1 << 12;
constexpr std::int64_t kFirstElements = 8192;  // a microsecond

struct Leaf {
  TensorSlot* slot = nullptr;
  TensorId id = 0;
  bool operator==(const Leaf&) const = default;
};

/// A leaf whose gradient the program wrote after it had arrived.
struct Written {
  TensorSlot* slot = nullptr;
  at::Tensor gradient;
  std::uint64_t since = 0;  ///< number of the first write that may be one of those
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

bool is_known(TensorSlot& slot) {
  Leaves& known = leaves();
  const std::lock_guard lock(known.mutex);
  return std::ranges::find(known.all, Leaf{&slot, slot.id.load(std::memory_order_relaxed)}) !=
         known.all.end();
}

void add_if_written(Capture& capture, const at::Tensor& leaf, std::vector<Written>& written) {
  if (!leaf.defined() || !has_gradient(leaf)) return;
  TensorSlot& slot = capture.tensors().slot(leaf);
  if (gradient_before(slot, leaf, /*test_zero=*/false) != GradientBefore::kReset) return;
  written.push_back({.slot = &slot,
                     .gradient = leaf.grad(),
                     .since = slot.next_write.load(std::memory_order_relaxed)});
}

/// Of its first elements: what a norm or a count of 0 spoils is spoilt as a whole.
bool begins_finite(const at::Tensor& gradient) {
  auto data = readable_data(gradient);
  if (!data.has_value()) return true;
  data->elements = std::min(data->elements, kFirstElements);
  const TensorValues values = measure_values(*data);
  return values.nan_count == 0 && values.inf_count == 0;
}

struct WritesOf {
  std::uint64_t first = 0;  ///< its number; 0: none is remembered
  std::uint64_t last = 0;
  std::int64_t count = 0;
};

WritesOf writes_to(const WriteLog& log, const Written& written) {
  WritesOf writes;
  const std::uint64_t storage = storage_of(*written.gradient.unsafeGetTensorImpl());
  if (written.since == 0) return writes;
  log.each_since(written.since, [&](const WriteRecord& record, std::uint64_t number) {
    if (record.storage != storage) return;
    if (writes.count++ == 0) writes.first = number;
    writes.last = number;
  });
  return writes;
}

std::optional<Write> write_of(const WriteLog& log, std::uint64_t wanted) {
  std::optional<Write> write;
  if (wanted == 0) return write;
  log.each_since(wanted, [&](const WriteRecord& record, std::uint64_t number) {
    if (number != wanted) return;
    write = Write{.op = writer_base_name(static_cast<std::uint16_t>(record.op)),
                  .by = record.by.unpacked()};
  });
  return write;
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

/// Of those written that are not finite any more; what arrived so was told then.
void tell_spoilt(Capture& capture, const std::vector<Written>& written, bool before_average) {
  if (std::ranges::all_of(written, begins_finite, &Written::gradient)) return;
  GradientsSpoiltEvent event{.at = capture.marker().now(), .before_average = before_average};
  WritesOf earliest;
  for (const Written& one : written) {
    const ValueRange values = range_of(one.gradient);
    if (values.is_finite() || is_known(*one.slot)) continue;
    note_spoilt(*one.slot);
    const WritesOf writes = writes_to(capture.writes(), one);
    const bool is_earlier =
        event.gradients.empty() ||
        (writes.first != 0 && (earliest.first == 0 || writes.first < earliest.first));
    event.gradients.insert(
        is_earlier ? event.gradients.begin() : event.gradients.end(),
        {.at = event.at, .tensor = one.slot->id.load(std::memory_order_relaxed), .values = values});
    if (is_earlier) earliest = writes;
  }
  if (event.gradients.empty()) return;
  event.first = write_of(capture.writes(), earliest.first);
  event.last = write_of(capture.writes(), earliest.last);
  event.writes = earliest.count;
  capture.put_large(std::move(event));
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

void tell_repaired_or_spoilt(Capture& capture, const ParamGroups& groups) {
  tell_repaired(capture);
  if (!capture.options().values || !reads_values()) return;
  std::vector<Written> written;
  for (const auto& group : groups) {
    for (const at::Tensor& member : group.params()) add_if_written(capture, member, written);
  }
  tell_spoilt(capture, written, /*before_average=*/false);
}

void tell_spoilt_before(Capture& capture, const CollectiveEvent& average,
                        std::span<const TensorId> leaves) {
  std::vector<Written> written;
  const auto is_given = [](TensorId id) { return id != 0; };
  const bool are_given = std::ranges::any_of(average.gradients_of, is_given);
  for (const TensorId id : are_given ? std::span(average.gradients_of) : leaves) {
    if (id != 0) add_if_written(capture, capture.tensors().tensor(id), written);
  }
  tell_spoilt(capture, written, /*before_average=*/true);
}

}  // namespace ddpscope
