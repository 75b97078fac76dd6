#include "hooks/write_log.h"

#include <cstring>

#include "hooks/tensor_registry.h"

namespace ddpscope {
namespace {
// Some other tensor on the storage has a version counter of its own: more share the one than the
// other. A view of what data() returned shares its counter with that.
bool is_hidden(const c10::TensorImpl& impl) noexcept {
  if (!impl.has_storage() || !impl.version_counter().enabled()) return false;
  auto* const counter = reinterpret_cast<c10::intrusive_ptr_target*>(counter_of(impl));  // NOLINT
  return impl.unsafe_storage().use_count() > c10::raw::intrusive_ptr::use_count(counter);
}
}  // namespace

ByteRows bytes_of(const c10::TensorImpl& impl) noexcept {
  if (impl.layout() != c10::kStrided || impl.has_symbolic_sizes_strides()) {
    return {.begin = 0, .end = UINT64_MAX};
  }
  if (impl.numel() == 0) return {};
  std::uint64_t last = 0;
  std::uint64_t stride = 0;
  std::uint64_t rows = 1;
  for (std::int64_t i = 0; i < impl.dim(); ++i) {
    const auto size = static_cast<std::uint64_t>(impl.sizes()[i]);
    const auto step = static_cast<std::uint64_t>(impl.strides()[i]);
    last += (size - 1) * step;
    if (size > 1 && step > stride) {
      stride = step;
      rows = size;
    }
  }
  const std::uint64_t item = impl.itemsize();
  const std::uint64_t begin = static_cast<std::uint64_t>(impl.storage_offset()) * item;
  return {.begin = begin,
          .end = begin + (last + 1) * item,
          .stride = stride * item,
          .row_bytes = (last + 1 - (rows - 1) * stride) * item};
}

bool overlap(const ByteRows& a, const ByteRows& b) noexcept {
  if (a.begin >= b.end || b.begin >= a.end) return false;
  if (a.stride == 0 || a.stride != b.stride) return true;
  const std::uint64_t in_a = a.begin % a.stride;
  const std::uint64_t in_b = b.begin % b.stride;
  const bool wraps = in_a + a.row_bytes > a.stride || in_b + b.row_bytes > b.stride;
  return wraps || (in_a < in_b + b.row_bytes && in_b < in_a + a.row_bytes);
}

std::uint64_t counter_of(const c10::TensorImpl& impl) noexcept {
  const c10::VariableVersion& version = impl.version_counter();
  static_assert(sizeof(version) == sizeof(std::uint64_t));
  std::uint64_t counter = 0;
  std::memcpy(&counter, &version, sizeof counter);
  return counter;
}

std::uint64_t storage_of(const c10::TensorImpl& impl) noexcept {
  if (!impl.has_storage()) return 0;
  return reinterpret_cast<std::uintptr_t>(impl.unsafe_storage().unsafeGetStorageImpl());
}

void WriteLog::put(const at::Tensor& written, std::uint16_t op, const Doing& by) noexcept {
  if (!written.defined()) return;
  const c10::TensorImpl& impl = *written.unsafeGetTensorImpl();
  WriteRecord record{.counter = counter_of(impl),
                     .storage = storage_of(impl),
                     .by = by,
                     .version = version_of(impl),
                     .op = op};
  const std::uint64_t number = take_number();
  if (is_hidden(impl)) put_hidden(impl, record, number);
  slots_.put(number, number, record);
}

void WriteLog::put_hidden(const c10::TensorImpl& impl, WriteRecord& record,
                          std::uint64_t number) noexcept {
  record.hidden = hidden_count_.fetch_add(1, std::memory_order_relaxed) + 1;
  hidden_bytes_.put(record.hidden, record.hidden, bytes_of(impl));
  last_hidden_.put(record.storage, number);
  any_hidden_.store(true, std::memory_order_relaxed);
}

std::uint64_t WriteLog::oldest() const noexcept {
  const std::uint64_t end = next();
  return end > slots_.size() ? end - slots_.size() : 1;
}

bool WriteLog::was_hidden_written(const c10::TensorImpl& impl, std::uint64_t since) const {
  const LastWrites::Last last = last_hidden_.of(storage_of(impl));
  return last.number >= since && (last.is_known || hidden_in(impl, since).writes > 0);
}

template <class Matches>
WriteLog::Found WriteLog::search(std::uint64_t since, Matches&& matches) const {
  Found found;
  each_since(since, [&](const WriteRecord& record, std::uint64_t) {
    if (matches(record) && ++found.writes == 1) found.first = record;
  });
  return found;
}

WriteLog::Found WriteLog::moved_beyond(const c10::TensorImpl& impl, std::uint32_t version,
                                       std::uint64_t since) const {
  // A saved tensor keeps its counter alive, so a later record with its address is of this counter.
  return search(since, [counter = counter_of(impl), version](const WriteRecord& record) {
    return record.counter == counter && record.version > version;
  });
}

WriteLog::Found WriteLog::hidden_in(const c10::TensorImpl& impl, std::uint64_t since) const {
  return search(since, [&, counter = counter_of(impl), storage = storage_of(impl),
                        bytes = bytes_of(impl)](const WriteRecord& record) {
    if (record.hidden == 0 || record.storage != storage || record.counter == counter) return false;
    const std::optional<ByteRows> written = hidden_bytes_.find(record.hidden, record.hidden);
    return written.has_value() && overlap(*written, bytes);
  });
}

}  // namespace ddpscope
