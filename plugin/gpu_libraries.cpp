#include "plugin/gpu_libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace ddpscope {
namespace {
constexpr std::string_view kRuntime = "libcudart.so.";

std::string without_links(const char* path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path, nullptr), &std::free);
  return real == nullptr ? path : real.get();
}

int read_version(dl_phdr_info* library, std::size_t, void* version) {
  const std::string_view name = library->dlpi_name == nullptr ? "" : library->dlpi_name;
  if (name.find(kRuntime) == name.npos) return 0;
  const std::string path = without_links(library->dlpi_name);
  const std::size_t at = path.rfind(kRuntime);
  if (at == path.npos) return 0;
  *static_cast<std::string*>(version) = path.substr(at + kRuntime.size());
  return 1;
}
}  // namespace

std::string cuda_version() {
  std::string version;
  ::dl_iterate_phdr(&read_version, &version);
  return version;
}

std::string nccl_version() {
  using GetVersion = int(int*);
  auto* const get = reinterpret_cast<GetVersion*>(::dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int code = 0;
  return get != nullptr && get(&code) == 0 ? nccl_version_of(code) : "";
}

std::string nccl_version_of(int code) {
  constexpr int kFirstOfFive = 20900;
  const int major = code < kFirstOfFive ? 1000 : 10000;
  return std::to_string(code / major) + "." + std::to_string(code % major / 100) + "." +
         std::to_string(code % 100);
}

}  // namespace ddpscope
