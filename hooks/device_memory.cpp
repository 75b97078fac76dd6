#include "hooks/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <array>
#include <cstdio>

namespace ddpscope {
namespace {
/// The functions of the CUDA driver that make no context; 0 is success.
struct Driver {
  using Uuid = std::array<unsigned char, 16>;
  int (*count)(int* devices) = nullptr;
  int (*get)(int* device, int index) = nullptr;
  int (*uuid)(Uuid* uuid, int device) = nullptr;
  int (*context)(int device, unsigned* flags, int* active) = nullptr;

  bool is_complete() const {
    return count != nullptr && get != nullptr && uuid != nullptr && context != nullptr;
  }
};

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

// Asked for only once tensors lie on a GPU: then it is there. The handle is kept.
const Driver* driver() {
  static void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  static const Driver found = [] {
    Driver functions;
    if (library == nullptr) return functions;
    find(library, "cuDeviceGetCount", functions.count);
    find(library, "cuDeviceGet", functions.get);
    find(library, "cuDeviceGetUuid_v2", functions.uuid);
    find(library, "cuDevicePrimaryCtxGetState", functions.context);
    return functions;
  }();
  return found.is_complete() ? &found : nullptr;
}

int visible_devices(const Driver& driver) {
  int count = 0;
  return driver.count(&count) == 0 ? count : 0;
}

// As the driver's own tools spell it.
std::string text_of(const Driver::Uuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", uuid[i]);
    text += digits.data();
  }
  return text;
}

// LibTorch 2.8 tells what its allocator holds in its library for CUDA alone.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 9
constexpr bool kTellsAllocated = false;
void add_allocator(DeviceMemory&) {}
#else
constexpr bool kTellsAllocated = true;
void add_allocator(DeviceMemory& memory) {
  auto* const allocator =
      dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA));
  if (allocator == nullptr || !allocator->initialized()) return;
  const auto stats = allocator->getDeviceStats(static_cast<c10::DeviceIndex>(memory.index));
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  memory.reserved_bytes = stats.reserved_bytes[kAll].current;
  memory.peak_bytes = stats.allocated_bytes[kAll].peak;
}
#endif
}  // namespace

std::optional<DeviceIdentity> identify_device(std::int64_t index) noexcept try {
  const Driver* const cuda = driver();
  if (cuda == nullptr) return std::nullopt;
  int device = 0;
  Driver::Uuid uuid{};
  if (cuda->get(&device, static_cast<int>(index)) != 0) return std::nullopt;
  if (cuda->uuid(&uuid, device) != 0) return std::nullopt;
  return DeviceIdentity{.uuid = text_of(uuid), .visible_count = visible_devices(*cuda)};
} catch (...) {
  return std::nullopt;
}

std::vector<DeviceMemory> read_device_memory() noexcept try {
  const Driver* const cuda = kTellsAllocated ? driver() : nullptr;
  if (cuda == nullptr) return {};
  std::vector<DeviceMemory> devices;
  for (int index = 0; index < visible_devices(*cuda); ++index) {
    DeviceMemory memory{.index = index};
    int device = 0;
    unsigned flags = 0;
    int active = 0;
    if (cuda->get(&device, index) != 0 || cuda->context(device, &flags, &active) != 0) continue;
    memory.has_context = active != 0;
    if (memory.has_context) add_allocator(memory);
    devices.push_back(memory);
  }
  return devices;
} catch (...) {
  return {};
}

}  // namespace ddpscope
