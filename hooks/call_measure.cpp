#include "hooks/call_measure.h"

#include <algorithm>
#include <array>

#include "hooks/tensor_registry.h"

namespace ddpscope {
namespace {
constexpr std::size_t kCompared = 64;  // tensors whose storages are told apart

template <class Key>
std::int64_t distinct(std::span<const at::Tensor> tensors, const Key& key) {
  std::array<std::uint64_t, kCompared> keys;
  const std::size_t count = std::min(tensors.size(), keys.size());
  for (std::size_t i = 0; i < count; ++i) keys[i] = key(tensors[i]);
  std::sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count));
  return std::unique(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count)) -
         keys.begin();
}

std::uint64_t device_key(const at::Tensor& tensor) {
  const c10::Device device = tensor.device();
  return static_cast<std::uint64_t>(device.type()) << 8 | static_cast<std::uint8_t>(device.index());
}

/// What all tensors of the list tell together. An undefined one says nothing.
void measure_list(std::span<const at::Tensor> tensors, CollectiveEvent& event) {
  bool first = true;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) return;
    const std::int64_t elements = tensor.numel();
    event.elements += elements;
    event.bytes += elements * static_cast<std::int64_t>(tensor.itemsize());
    event.elements_min = first ? elements : std::min(event.elements_min, elements);
    event.elements_max = std::max(event.elements_max, elements);
    first = false;
  }
  if (tensors.size() < 2) return;
  event.distinct_storages =
      distinct(tensors, [](const at::Tensor& tensor) { return memory_of(tensor).storage; });
  event.devices = distinct(tensors, device_key);
}

void measure_raw(const RawValues& raw, CollectiveEvent& event) {
  event.list = raw.list;
  event.elements = event.elements_min = event.elements_max = raw.elements;
  event.bytes = raw.bytes;
}

}  // namespace

void measure(const CallFacts& facts, CollectiveEvent& event) {
  measure_list(facts.tensors, event);
  if (facts.raw.has_value()) measure_raw(*facts.raw, event);
}

}  // namespace ddpscope
