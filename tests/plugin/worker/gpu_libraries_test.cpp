#include "plugin/gpu_libraries.h"

#include <dlfcn.h>

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::gpu_libraries_test {
namespace {

TEST_CASE("the CUDA runtime is known by the name of its file", "[plugin]") {
  if (!cuda_version().empty()) DDPSCOPE_SKIP("the tests were linked with one");
  const TemporaryDir dir;
  Dl_info some{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(&::dlopen), &some) != 0);
  const auto libraries = std::filesystem::path(some.dli_fname).parent_path();
  // Any library will do that is not loaded yet.
  std::filesystem::copy(libraries / "libutil.so.1", dir / "libcudart.so.99.1.2");
  std::filesystem::create_symlink("libcudart.so.99.1.2", dir / "libcudart.so.99");
  void* const runtime = ::dlopen((dir / "libcudart.so.99").c_str(), RTLD_NOW);
  REQUIRE(runtime != nullptr);
  CHECK(cuda_version() == "99.1.2");
  ::dlclose(runtime);
  CHECK(cuda_version().empty());
}

TEST_CASE("the number of NCCL's version is read in both forms", "[plugin]") {
  CHECK(nccl_version_of(2708) == "2.7.8");
  CHECK(nccl_version_of(2804) == "2.8.4");
  CHECK(nccl_version_of(20908) == "2.9.8");
  CHECK(nccl_version_of(22705) == "2.27.5");
  CHECK(nccl_version().empty());
}

}  // namespace
}  // namespace ddpscope::test::gpu_libraries_test
