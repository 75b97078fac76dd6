#include "plugin/device_of_rank.h"

#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "config/env.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kFirstCycles = 16;
constexpr std::int64_t kEveryCycles = 64;
constexpr std::string_view kCuda = "cuda:";
constexpr char kMask[] = "CUDA_VISIBLE_DEVICES";

/// The GPU with most elements of the model.
std::optional<std::int64_t> index_of(const TreeEvent& tree) {
  std::map<std::int64_t, std::int64_t> elements;
  for (const RegisteredTensor& registered : tree.tensors) {
    const std::string_view device = registered.tensor.device;
    std::int64_t index = 0;
    if (!device.starts_with(kCuda)) continue;
    const char* const end = device.data() + device.size();
    if (std::from_chars(device.data() + kCuda.size(), end, index).ec != std::errc()) continue;
    elements[index] += registered.tensor.elements;
  }
  std::optional<std::int64_t> most;
  for (const auto& [index, count] : elements) {
    if (!most.has_value() || count > elements.at(*most)) most = index;
  }
  return most;
}
}  // namespace

bool DeviceOfRank::see(const TreeEvent& tree, RunRecord& run) {
  if (is_known_ || readers_.identify == nullptr) return false;
  const auto index = index_of(tree);
  if (!index.has_value()) return false;
  const auto identity = readers_.identify(*index);
  if (!identity.has_value()) return false;
  is_known_ = true;
  run.device = identity->uuid;
  run.device_index = *index;
  run.visible_devices = identity->visible_count;
  if (environment(kMask).has_value()) run.device_mask = kMask;
  return true;
}

std::unique_ptr<DeviceMemoryEvent> DeviceOfRank::read(const Stamp& at) const {
  const bool is_due = at.cycle <= kFirstCycles || at.cycle % kEveryCycles == 0;
  if (!is_known_ || !is_due || readers_.memory == nullptr) return nullptr;
  auto event = std::make_unique<DeviceMemoryEvent>();
  event->at = at;
  event->devices = readers_.memory();
  return event->devices.size() > 1 ? std::move(event) : nullptr;
}

}  // namespace ddpscope
