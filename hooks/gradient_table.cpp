#include "hooks/gradient_table.h"

namespace ddpscope {

const void* values_of(const c10::TensorImpl& impl) noexcept {
  if (impl.layout() != c10::kStrided || impl.has_symbolic_sizes_strides() || !impl.has_storage()) {
    return nullptr;
  }
  const auto* const begin = static_cast<const char*>(
      impl.unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
  if (begin == nullptr) return nullptr;
  return begin + impl.storage_offset() * static_cast<std::int64_t>(impl.itemsize());
}

GradientTable::Entry& GradientTable::Entries::probed(const void* values,
                                                     std::size_t probe) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(values);
  const std::size_t first = (address * 0x9E3779B97F4A7C15) >> 40;
  return at[(first + probe) & (count - 1)];
}

bool GradientTable::is_stale(const Entry& entry) noexcept {
  const TensorSlot* slot = entry.slot.load(std::memory_order_relaxed);
  return slot == nullptr || slot->gradient_values.load(std::memory_order_relaxed) !=
                                entry.values.load(std::memory_order_relaxed);
}

bool GradientTable::put_in(const Entries& entries, TensorSlot& slot, const void* values) noexcept {
  Entry* place = nullptr;
  for (std::size_t i = 0; i < kProbes; ++i) {
    Entry& entry = entries.probed(values, i);
    const void* const held = entry.values.load(std::memory_order_relaxed);
    if (held == values) {
      entry.slot.store(&slot, std::memory_order_relaxed);
      return true;
    }
    if (place == nullptr && (held == nullptr || is_stale(entry))) place = &entry;
    if (held == nullptr) break;
  }
  if (place == nullptr) return false;
  place->slot.store(&slot, std::memory_order_relaxed);
  place->values.store(values, std::memory_order_relaxed);
  return true;
}

// What others put into the full one meanwhile is found again once it is put again.
const GradientTable::Entries* GradientTable::grow(const Entries* full) noexcept try {
  const std::lock_guard lock(growth_);
  const Entries* const now = entries_.load(std::memory_order_acquire);
  if (now != full || full->count >= kMost) return now;
  const std::size_t count = full->count * 4;
  auto* const larger = new Entries{new Entry[count], count};
  for (std::size_t i = 0; i < full->count; ++i) {
    const Entry& entry = full->at[i];
    if (is_stale(entry)) continue;
    put_in(*larger, *entry.slot.load(std::memory_order_relaxed),
           entry.values.load(std::memory_order_relaxed));
  }
  entries_.store(larger, std::memory_order_release);
  return larger;
} catch (...) {
  return full;
}

void GradientTable::put(TensorSlot& slot, const at::Tensor& leaf) noexcept {
  const at::Tensor& gradient = leaf.grad();
  const void* const values =
      gradient.defined() ? values_of(*gradient.unsafeGetTensorImpl()) : nullptr;
  slot.gradient_values.store(values, std::memory_order_relaxed);
  if (values == nullptr) return;
  const Entries* entries = entries_.load(std::memory_order_acquire);
  if (!put_in(*entries, slot, values)) put_in(*grow(entries), slot, values);
}

TensorSlot* GradientTable::find(const void* values) const noexcept {
  if (values == nullptr) return nullptr;
  const Entries& entries = *entries_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < kProbes; ++i) {
    const Entry& entry = entries.probed(values, i);
    const void* const held = entry.values.load(std::memory_order_relaxed);
    if (held == nullptr) return nullptr;
    if (held == values) return entry.slot.load(std::memory_order_relaxed);
  }
  return nullptr;
}

GradientTable& gradient_table() noexcept {
  static constinit GradientTable table;
  return table;
}

}  // namespace ddpscope
