#include "ops/device/place.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "cuda/stream_handle.h"

namespace ddpscope::device {
namespace {

// Beside the library that this is part of.
std::string library_path() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&why_unavailable), &here) == 0) return "";
  const std::string path = here.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + "libddpscope_device.so";
}

/// Opened where an operator meets a GPU first, and never closed.
struct Library {
  const cuda::DeviceKernels* kernels = nullptr;
  std::string error;

  Library() {
    void* const library = dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      error = "the part for GPUs cannot be opened: " + std::string(dlerror());
      return;
    }
    auto* const find =
        reinterpret_cast<cuda::FindDeviceKernels*>(dlsym(library, "ddpscope_device_kernels"));
    if (find != nullptr && find()->size == sizeof(cuda::DeviceKernels)) {
      kernels = find();
    } else {
      error = library_path() + " is of another version";
    }
  }
  static const Library& get() {
    static const auto* const leaked = new Library;
    return *leaked;
  }
};

}  // namespace

void Place::check(int code, const char* launch) const {
  TORCH_CHECK(code == 0, launch, " could not be queued on ", device, ": ",
              kernels->error_text(code), " (", code, ")");
}

at::Tensor Place::empty(std::int64_t count, at::ScalarType dtype) const {
  return at::empty({count}, at::TensorOptions().dtype(dtype).device(device));
}

at::Tensor Place::tickets(std::int64_t count) const {
  const auto zeros = [&](std::int64_t size) {
    return at::zeros({size}, at::TensorOptions().dtype(at::kInt).device(device));
  };
  if (is_capturing()) return zeros(count);
  // Never destroyed: the device may be gone at the end of the process.
  static auto* const kept = new std::map<std::pair<c10::Device, CUstream_st*>, at::Tensor,
                                         decltype([](const auto& a, const auto& b) {
                                           return std::pair(a.first.index(), a.second) <
                                                  std::pair(b.first.index(), b.second);
                                         })>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  at::Tensor& of_stream = (*kept)[{device, stream}];
  if (!of_stream.defined() || of_stream.numel() < count) {
    of_stream = zeros(std::max<std::int64_t>(count, 4096));
  }
  return of_stream;
}

at::Tensor Place::upload(std::span<const std::byte> bytes) const {
  // LibTorch gives memory that a copy reads to nobody else before the copy has ended.
  const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(!device.is_cpu());
  const at::Tensor staged = at::empty({static_cast<std::int64_t>(bytes.size())}, options);
  std::memcpy(staged.mutable_data_ptr(), bytes.data(), bytes.size());
  return staged.to(device, /*non_blocking=*/true);
}

void* Place::make_notice(std::size_t bytes) const {
  void* const memory = kernels->make_notice(bytes);
  TORCH_CHECK(memory != nullptr, "no memory that host and ", device, " both see is left");
  return memory;
}

std::string why_unavailable(const c10::Device& device) {
  if (!device.is_cuda()) return "there are kernels for the CPU and for CUDA";
  return TellsHandle<c10::Stream> ? Library::get().error : kTellsNoHandle;
}

Place current_place(const c10::Device& device) {
  const std::string why = why_unavailable(device);
  TORCH_CHECK(why.empty(), "ddpscope cannot compute on ", device, ": ", why);
  const c10::Stream stream = c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
  return {Library::get().kernels, device, handle_of(stream)};
}

}  // namespace ddpscope::device
