// Loops that wait for a device. The device is made up: its memory is the host's, and to read it
// takes a while.
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::optim::SGD;
using Device = c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1>;
constexpr int kSteps = 64;

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(500)); }

struct DeviceMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr data = c10::GetDefaultCPUAllocator()->allocate(bytes);
    data.unsafe_set_device(c10::Device(c10::kPrivateUse1, 0));
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return c10::GetDefaultCPUAllocator()->raw_deleter();
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

at::Tensor empty(at::IntArrayRef sizes, std::optional<c10::ScalarType> type,
                 std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>,
                 std::optional<c10::MemoryFormat> format) {
  static DeviceMemory memory;
  return at::detail::empty_generic(sizes, &memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Scalar number_of(const at::Tensor& tensor) {
  pause();
  return *static_cast<const float*>(tensor.const_data_ptr());
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  pause();
  std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
  return to;
}

/// A copy in the memory of the device.
at::Tensor on_device(const at::Tensor& host) {
  C10_REGISTER_GUARD_IMPL(PrivateUse1, Device)
  static torch::Library kernels(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                __FILE__, __LINE__);
  kernels.impl("empty.memory_format", TORCH_FN(empty));
  kernels.impl("_local_scalar_dense", TORCH_FN(number_of));
  kernels.impl("_copy_from", TORCH_FN(copy_from));
  const auto options = host.options().device(c10::Device(c10::kPrivateUse1, 0));
  return at::empty(host.sizes(), options).copy_(host);
}

at::Tensor number_on_device() { return on_device(torch::ones(1)); }

/// A collective that another thread ends.
struct Collective : c10d::Work {
  void end() { finish(); }
};

void wait_for_others() {
  auto work = c10::make_intrusive<Collective>();
  std::thread other([&work] {
    pause();
    work->end();
  });
  work->wait();
  other.join();
}

void step(Net& net, SGD& optimizer) {
  optimizer.zero_grad();
  net->loss().backward();
  optimizer.step();
}

void check_is_unsaid() {
  check_silent();
  const auto all = findings();
  CHECK(find(all, "perf-sync-calls") == nullptr);
}
}  // namespace

TEST_CASE("Steps that wait for a device are found") {
  const at::Tensor number = number_on_device();
  Net net;
  attach_diagnostics(*net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < kSteps; ++i) {
    step(net, optimizer);
    for (int k = 0; k < 3; ++k) number.item<float>();
    number.cpu();
    wait_for_others();
  }
  check_findings({"perf-sync-calls warning - - - -"});
  const auto all = findings();
  const std::string& what = find(all, "perf-sync-calls")->what;
  CHECK(what.starts_with("5 device waits per step"));
  CHECK(what.ends_with("; 3 are reads of a number (item)"));
}

TEST_CASE("Waits inside of a module are told with the module") {
  const at::Tensor number = number_on_device();
  Net net;
  const auto reads = [&number](const at::Tensor& input) {
    for (int k = 0; k < 4; ++k) number.item<float>();
    return input;
  };
  torch::nn::Functional reading(reads);
  net->register_module("reading", reading);
  attach_diagnostics(*net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return reading(net->loss()); }, kSteps);
  const auto all = findings();
  REQUIRE(find(all, "perf-sync-calls") != nullptr);
  CHECK(find(all, "perf-sync-calls")->what.ends_with("4 are reads of a number (item) in reading"));
}

TEST_CASE("A few waits in each step are as usual") {
  const at::Tensor number = number_on_device();
  Net net;
  attach_diagnostics(*net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < kSteps; ++i) {
    step(net, optimizer);
    for (int k = 0; k < 3; ++k) number.item<float>();
  }
  check_is_unsaid();
}

TEST_CASE("Waits outside of steps stop no training") {
  const at::Tensor number = number_on_device();
  Net net;
  attach_diagnostics(*net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < kSteps; ++i) {
    step(net, optimizer);
    std::thread([&] {
      for (int k = 0; k < 4; ++k) number.item<float>();
    }).join();
    net->eval();
    net->loss();
    for (int k = 0; k < 4; ++k) number.item<float>();
    net->train();
  }
  check_is_unsaid();
}

TEST_CASE("To read the loss from a device is no waiting for data") {
  const at::Tensor number = number_on_device();
  Net net;
  attach_diagnostics(*net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < kSteps; ++i) {
    step(net, optimizer);
    for (int k = 0; k < 16; ++k) number.item<float>();
  }
  const auto all = findings();
  CHECK(find(all, "data-loader-wait") == nullptr);
}

TEST_CASE("What does not wait for a device is no wait") {
  const at::Tensor number = number_on_device();
  Net net;
  attach_diagnostics(*net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < kSteps; ++i) {
    step(net, optimizer);
    for (int k = 0; k < 6; ++k) {
      torch::ones(1).copy_(number, /*non_blocking=*/true);
      torch::ones(1).clone().item<float>();
      auto ended = c10::make_intrusive<Collective>();
      ended->end();
      ended->wait();
    }
  }
  check_is_unsaid();
}

TEST_CASE("Reads on the host wait for nothing and are counted") {
  Net net;
  attach_diagnostics(*net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < kSteps; ++i) {
    step(net, optimizer);
    const at::Tensor numbers = torch::tensor({0.F, 1.F, 2.F});
    for (int k = 0; k < 5; ++k) numbers[k % 3].item<float>();
    numbers.nonzero();
    numbers.masked_select(numbers > 0);
    wait_for_others();
  }
  check_is_unsaid();
  flush();
  const auto steps = records("step");
  REQUIRE(steps.size() > 10);
  CHECK(nlohmann::json::parse(steps[10]).value("host_reads", 0) == 7);
}

TEST_CASE("Indices on a device are looked at where it is asked to wait for them") {
  const at::Tensor indices = on_device(torch::tensor({0, 9}, torch::kLong));
  Net net;
  Options options = quiet();
  options.check_options["loss-target-range.strict"] = "1";
  attach_diagnostics(*net, options);
  CHECK_THROWS_AS(torch::embedding(torch::ones({4, 2}), indices), c10::Error);
  const auto all = findings();
  const Finding* finding = find(all, "loss-target-range");
  REQUIRE(finding != nullptr);
  CHECK(finding->what.starts_with("1 of 2 indices is outside [0, 3]: maximum 9"));
}

TEST_CASE("Indices on a device are left alone") {
  const at::Tensor indices = on_device(torch::tensor({0, 9}, torch::kLong));
  Net net;
  attach_diagnostics(*net, quiet());
  CHECK_THROWS_AS(torch::embedding(torch::ones({4, 2}), indices), c10::Error);
  const auto all = findings();
  CHECK(find(all, "loss-target-range") == nullptr);
}

}  // namespace ddpscope::test
