#include "hooks/tensor_registry.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "hooks/per_thread.h"

namespace ddpscope {
namespace {
constexpr std::size_t kCached = 256;

struct CacheLine {
  const c10::TensorImpl* impl = nullptr;
  TensorSlot* slot = nullptr;
};

CacheLine& cache_line(const c10::TensorImpl* impl) {
  auto& cache = PerThread<std::array<CacheLine, kCached>>::get();
  return cache[(reinterpret_cast<std::uintptr_t>(impl) >> 6) % kCached];
}

// `Tensor::grad()` warns about tensors that are no leaves: never ask those.
const c10::TensorImpl* gradient_of(const at::Tensor& tensor) {
  if (!tensor.is_leaf()) return nullptr;
  const at::Tensor& gradient = tensor.grad();
  return gradient.defined() ? gradient.unsafeGetTensorImpl() : nullptr;
}

// Negative zero counts as a value: the test may only err towards "not zero".
bool all_bytes_zero(const char* data, std::size_t bytes) {
  return bytes == 0 || (data[0] == 0 && std::memcmp(data, data + 1, bytes - 1) == 0);
}
}  // namespace

TensorRegistry::TensorRegistry() = default;

TensorSlot& TensorRegistry::slot(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  CacheLine& line = cache_line(impl);
  if (line.impl == impl && line.slot->impl.load(std::memory_order_acquire) == impl) {
    return *line.slot;
  }
  TensorSlot& found = find_or_add(tensor);
  line = {impl, &found};
  return found;
}

TensorSlot& TensorRegistry::find_or_add(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const std::lock_guard lock(mutex_);
  if (by_impl_.size() >= sweep_at_) sweep_locked();
  if (const auto known = by_impl_.find(impl); known != by_impl_.end()) return *known->second;
  if (free_.empty()) {
    free_.push_back(&slots_.emplace_back());
  }
  TensorSlot& slot = *free_.back();
  free_.pop_back();
  slot.weak.emplace(tensor.getIntrusivePtr());
  slot.id = ++last_id_;
  slot.announced = false;
  slot.computed = false;
  slot.buffer = false;
  slot.gradient = nullptr;
  slot.gradient_version = 0;
  slot.gradient_values = nullptr;
  slot.version = 0;
  slot.values = nullptr;
  slot.next_write = 0;
  slot.gradient_name = 0;
  slot.impl.store(impl, std::memory_order_release);
  by_impl_.emplace(impl, &slot);
  by_id_.emplace(slot.id, &slot);
  return slot;
}

const TensorSlot* TensorRegistry::known(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const CacheLine& line = cache_line(impl);
  if (line.impl == impl && line.slot->impl.load(std::memory_order_acquire) == impl) {
    return line.slot;
  }
  const std::lock_guard lock(mutex_);
  const auto known = by_impl_.find(impl);
  return known == by_impl_.end() ? nullptr : known->second;
}

bool TensorRegistry::is_followed(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  const auto known = by_impl_.find(tensor.unsafeGetTensorImpl());
  return known != by_impl_.end() && (known->second->computed || known->second->buffer);
}

at::Tensor TensorRegistry::lock(const TensorSlot& slot) {
  const std::lock_guard lock(mutex_);
  return slot.weak.has_value() ? at::Tensor(slot.weak->lock()) : at::Tensor();
}

at::Tensor TensorRegistry::tensor(TensorId id) {
  const std::lock_guard lock(mutex_);
  const auto known = by_id_.find(id);
  const bool is_held = known != by_id_.end() && known->second->weak.has_value();
  return is_held ? at::Tensor(known->second->weak->lock()) : at::Tensor();
}

void TensorRegistry::sweep() {
  const std::lock_guard lock(mutex_);
  sweep_locked();
}

void TensorRegistry::sweep_locked() {
  for (auto entry = by_impl_.begin(); entry != by_impl_.end();) {
    TensorSlot& slot = *entry->second;
    if (slot.weak->use_count() > 0) {
      ++entry;
      continue;
    }
    by_id_.erase(slot.id);
    slot.impl.store(nullptr, std::memory_order_release);
    slot.weak.reset();
    free_.push_back(&slot);
    entry = by_impl_.erase(entry);
  }
  sweep_at_ = std::max<std::size_t>(4096, 2 * by_impl_.size());
}

std::vector<TensorId> TensorRegistry::alive(const std::vector<TensorId>& ids) {
  const std::lock_guard lock(mutex_);
  std::vector<TensorId> result;
  for (const TensorId id : ids) {
    const auto known = by_id_.find(id);
    if (known != by_id_.end() && known->second->weak->use_count() > 0) result.push_back(id);
  }
  return result;
}

bool has_gradient(const at::Tensor& tensor) { return gradient_of(tensor) != nullptr; }

std::uint32_t version_of(const c10::TensorImpl& impl) {
  const auto& counter = impl.version_counter();
  return counter.enabled() ? counter.current_version() : 0;
}

bool is_dense(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return impl.layout() == c10::kStrided && impl.has_storage() && impl.storage_initialized() &&
         impl.is_non_overlapping_and_dense();
}

bool is_readable(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_cpu() && is_dense(tensor);
}

Memory memory_of(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.layout() != c10::kStrided || impl.has_symbolic_sizes_strides() || !impl.has_storage()) {
    return {};
  }
  return {reinterpret_cast<std::uintptr_t>(impl.unsafe_storage().unsafeGetStorageImpl()),
          impl.storage_offset() * static_cast<std::int64_t>(impl.dtype().itemsize())};
}

// Along an expanded dimension one element stands for all.
std::vector<std::int64_t> unexpanded(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] != 0 || sizes[i] < 2) continue;
    if (shape.empty()) shape.assign(sizes.begin(), sizes.end());
    shape[i] = 1;
  }
  return shape;
}

const char* dtype_name(c10::ScalarType type) {
  using enum c10::ScalarType;
  static constexpr std::array<std::pair<c10::ScalarType, const char*>, 13> kNames = {{
      {Bool, "bool"},
      {Byte, "uint8"},
      {Char, "int8"},
      {Short, "int16"},
      {Int, "int32"},
      {Long, "int64"},
      {Half, "float16"},
      {BFloat16, "bfloat16"},
      {Float, "float32"},
      {Double, "float64"},
      {ComplexHalf, "complex32"},
      {ComplexFloat, "complex64"},
      {ComplexDouble, "complex128"},
  }};
  const auto* known = std::ranges::find(kNames, type, [](const auto& pair) { return pair.first; });
  return known == kNames.end() ? c10::toString(type) : known->second;
}

TensorInfo describe(const at::Tensor& tensor, TensorId id) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  TensorInfo info{.id = id,
                  .dtype = dtype_name(c10::typeMetaToScalarType(impl.dtype())),
                  .device = impl.device().str(),
                  .requires_grad = impl.requires_grad(),
                  .is_leaf = tensor.is_leaf(),
                  .floating = c10::isFloatingType(c10::typeMetaToScalarType(impl.dtype())) ||
                              c10::isComplexType(c10::typeMetaToScalarType(impl.dtype()))};
  if (impl.has_symbolic_sizes_strides() || impl.is_sparse() || impl.layout() != c10::kStrided) {
    return info;
  }
  const auto sizes = impl.sizes();
  info.shape.assign(sizes.begin(), sizes.end());
  info.elements = impl.numel();
  info.unexpanded = unexpanded(sizes, impl.strides());
  const Memory memory = memory_of(tensor);
  info.storage = memory.storage;
  info.storage_offset_bytes = memory.offset_bytes;
  info.alone = impl.has_storage() && impl.unsafe_storage().use_count() == 1;
  return info;
}

void remember_gradient(TensorSlot& slot, const at::Tensor& tensor,
                       std::uint64_t next_write) noexcept {
  const c10::TensorImpl* impl = gradient_of(tensor);
  slot.gradient.store(impl, std::memory_order_relaxed);
  slot.gradient_version.store(impl != nullptr ? version_of(*impl) : 0, std::memory_order_relaxed);
  slot.next_write.store(next_write, std::memory_order_relaxed);
}

GradientBefore gradient_before(const TensorSlot& slot, const at::Tensor& tensor, bool test_zero) {
  const c10::TensorImpl* impl = gradient_of(tensor);
  if (impl == nullptr) return GradientBefore::kUndefined;
  if (impl != slot.gradient.load(std::memory_order_relaxed) ||
      version_of(*impl) != slot.gradient_version.load(std::memory_order_relaxed)) {
    return GradientBefore::kReset;
  }
  const bool readable = impl->layout() == c10::kStrided && impl->is_cpu() && impl->is_contiguous();
  if (!test_zero || !readable || !impl->has_storage()) return GradientBefore::kKept;
  const auto bytes = static_cast<std::size_t>(impl->numel()) * impl->dtype().itemsize();
  const auto* data = static_cast<const char*>(impl->data());
  return all_bytes_zero(data, bytes) ? GradientBefore::kZero : GradientBefore::kKept;
}

}  // namespace ddpscope
