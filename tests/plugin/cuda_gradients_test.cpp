// Training on a GPU, as users write it. Needs a LibTorch for CUDA, which the program loads itself.
#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <iostream>

#include "tests/support/torch_test.h"

namespace {
constexpr int kSkipped = 77;  // what ctest counts as skipped
std::atomic<int> waits{0};

int counted(const char* function, void* argument) {
  ++waits;
  using Call = int(void*);
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, function))(argument);
}
}  // namespace

// These stand before LibTorch's runtime. That of ddpscope is its own, and its calls are counted in
// tests/values/device_values_test.cpp.
extern "C" {
__attribute__((visibility("default"))) int cudaDeviceSynchronize() {
  return counted("cudaDeviceSynchronize", nullptr);
}
__attribute__((visibility("default"))) int cudaStreamSynchronize(void* stream) {
  return counted("cudaStreamSynchronize", stream);
}
__attribute__((visibility("default"))) int cudaEventSynchronize(void* event) {
  return counted("cudaEventSynchronize", event);
}
}

namespace ddpscope::test {
namespace {

void require_gpu() {
  const bool loaded = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr;
  if (loaded && torch::cuda::is_available()) return;
  std::cout << "skipped: " << (loaded ? "there is no GPU" : "this LibTorch is not one for CUDA")
            << std::endl;
  std::_Exit(kSkipped);
}

/// Steps of a network on the GPU.
struct Loop {
  Loop() {
    net->to(torch::kCUDA);
    attach_diagnostics(net, quiet());
  }
  at::Tensor loss() { return net->forward(torch::randn({5, 8}, torch::kCUDA)).square().mean(); }
  void step(double factor = 1) {
    optimizer.zero_grad();
    (loss() * factor).backward();
    optimizer.step();
  }

  Net net;
  torch::optim::SGD optimizer{net->parameters(), 0.01};
};

TEST_CASE("A gradient that is not finite on a GPU is found one step later") {
  require_gpu();
  Loop loop;
  for (int i = 0; i < 3; ++i) loop.step();
  loop.step(NAN);
  torch::cuda::synchronize();  // the values are there; the next backward asks for them
  loop.step();
  const auto found = findings();
  const Finding* const gradient = find(found, "numeric-nonfinite-gradient");
  REQUIRE(gradient != nullptr);
  CHECK(gradient->step == 4);
  CHECK(gradient->severity == "error");
}

TEST_CASE("A step on a GPU that the program skips is no finding of a step") {
  require_gpu();
  Loop loop;
  for (int i = 0; i < 6; ++i) {
    loop.optimizer.zero_grad();
    (loop.loss() * (i == 3 ? NAN : 1.0)).backward();
    if (i != 3) loop.optimizer.step();
  }
  torch::cuda::synchronize();
  const auto found = findings();
  const Finding* const gradient = find(found, "numeric-nonfinite-gradient");
  CHECK((gradient == nullptr || gradient->severity == "note"));
}

TEST_CASE("Finite training on a GPU is silent and waits no more than without ddpscope") {
  require_gpu();
  Loop loop;
  for (int i = 0; i < 5; ++i) loop.step();
  torch::cuda::synchronize();
  const int before = waits.load();
  for (int i = 0; i < 20; ++i) loop.step();
  CHECK(waits.load() == before);
  check_silent();
}

TEST_CASE("Gradients that add up over several backwards on a GPU are told once") {
  require_gpu();
  Loop loop;
  for (int i = 0; i < 5; ++i) {
    loop.optimizer.zero_grad();
    (loop.loss() * (i == 2 ? NAN : 1.0)).backward();
    loop.loss().backward();
    loop.optimizer.step();
    torch::cuda::synchronize();
  }
  const auto found = findings();
  const Finding* const gradient = find(found, "numeric-nonfinite-gradient");
  REQUIRE(gradient != nullptr);
  CHECK(gradient->step == 3);
}

}  // namespace
}  // namespace ddpscope::test
