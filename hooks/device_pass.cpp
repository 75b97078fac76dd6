#include "hooks/device_pass.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>

#include "cuda/stream_handle.h"

namespace ddpscope {
namespace {
// Beside the library that this is part of.
std::string library_path() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&has_cuda_passes), &here) == 0) return "";
  const std::string path = here.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + "libddpscope_device.so";
}

/// Opened where a GPU is used first, and never closed.
struct Library {
  MakeDevicePass* make = nullptr;
  IsCapturing* is_capturing = nullptr;
  std::string error;

  Library() {
    void* const library = dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      make = reinterpret_cast<MakeDevicePass*>(dlsym(library, "ddpscope_make_device_pass"));
      is_capturing = reinterpret_cast<IsCapturing*>(dlsym(library, "ddpscope_is_capturing"));
    }
    if (make != nullptr && is_capturing != nullptr) return;
    const char* const why = dlerror();
    error = why != nullptr ? why : "libddpscope_device.so is of another version";
  }
  static const Library& get() {
    static const auto* const leaked = new Library;
    return *leaked;
  }
};

class CudaPasses final : public DevicePasses {
 public:
  int current_device() override {
    return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->getDevice().index();
  }
  CUstream_st* stream_of(int device) override {
    const c10::Device place(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device));
    return handle_of(c10::impl::getDeviceGuardImpl(place.type())->getStream(place));
  }
  std::unique_ptr<DevicePass> make(DeviceValues::Capacity capacity, CUstream_st* stream) override {
    const Library& library = Library::get();
    if (!library.error.empty()) throw std::runtime_error(library.error);
    if (library.is_capturing(stream)) return nullptr;
    std::array<char, 256> error{};
    std::unique_ptr<DevicePass> made(library.make(&capacity, error.data(), error.size()));
    if (made == nullptr) throw std::runtime_error(error.data());
    return made;
  }
};
}  // namespace

DevicePasses& cuda_passes() {
  static auto* const leaked = new CudaPasses;
  return *leaked;
}

bool has_cuda_passes() noexcept try {
  return TellsHandle<c10::Stream> && access(library_path().c_str(), R_OK) == 0;
} catch (...) {  // no memory
  return false;
}

}  // namespace ddpscope
