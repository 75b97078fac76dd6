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

std::size_t GradientTable::first_of(const void* values) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(values);
  return (address * 0x9E3779B97F4A7C15) >> 50;
}

bool GradientTable::is_stale(const Entry& entry) noexcept {
  const TensorSlot* slot = entry.slot.load(std::memory_order_relaxed);
  return slot == nullptr || slot->gradient_values.load(std::memory_order_relaxed) !=
                                entry.values.load(std::memory_order_relaxed);
}

void GradientTable::put(TensorSlot& slot, const at::Tensor& leaf) noexcept {
  const at::Tensor& gradient = leaf.grad();
  const void* const values =
      gradient.defined() ? values_of(*gradient.unsafeGetTensorImpl()) : nullptr;
  slot.gradient_values.store(values, std::memory_order_relaxed);
  if (values == nullptr) return;
  const std::size_t first = first_of(values);
  Entry* place = nullptr;
  for (std::size_t i = 0; i < kProbes; ++i) {
    Entry& entry = entries_[(first + i) % kEntries];
    const void* const held = entry.values.load(std::memory_order_relaxed);
    if (held == values) {
      entry.slot.store(&slot, std::memory_order_relaxed);
      return;
    }
    if (place == nullptr && (held == nullptr || is_stale(entry))) place = &entry;
    if (held == nullptr) break;
  }
  if (place == nullptr) return;
  place->slot.store(&slot, std::memory_order_relaxed);
  place->values.store(values, std::memory_order_relaxed);
}

TensorSlot* GradientTable::find(const void* values) const noexcept {
  if (values == nullptr) return nullptr;
  const std::size_t first = first_of(values);
  for (std::size_t i = 0; i < kProbes; ++i) {
    const Entry& entry = entries_[(first + i) % kEntries];
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
