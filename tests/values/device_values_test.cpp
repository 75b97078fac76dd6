#include "values/device_values.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "cuda/cuda_call.h"
#include "tests/support/catch.h"
#include "tests/values/counted_waits.h"
#include "tests/values/reference.h"

using namespace ddpscope;
using namespace ddpscope::values_test;

namespace {

constexpr int kSkipped = 77;  // what ctest counts as skipped

void require_device() {
  const std::string why = DeviceValues::why_unavailable();
  if (why.empty()) return;
  std::cout << "skipped: " << why << std::endl;
  std::_Exit(kSkipped);
}

struct DeviceFree {
  void operator()(void* memory) const { DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaFree(memory)); }
};

/// Copies of tensors on the device, each `offset` elements after an aligned address.
class DeviceTensors {
 public:
  void add(const Tensor& tensor, int offset = 0) {
    const auto before = static_cast<std::size_t>(offset) * bytes_of(tensor.kind());
    void* memory = nullptr;
    const auto bytes = static_cast<std::size_t>(tensor.bytes());
    DDPSCOPE_CUDA_CALL(cudaMalloc(&memory, bytes + before + 1));
    memory_.emplace_back(memory);
    unsigned char* const begin = static_cast<unsigned char*>(memory) + before;
    DDPSCOPE_CUDA_CALL(cudaMemcpy(begin, tensor.begin(), bytes, cudaMemcpyHostToDevice));
    list_.push_back({begin, tensor.elements(), tensor.kind()});
    expected_.push_back(measure_values(tensor.data()));
    elements_ += tensor.elements();
  }

  const std::vector<TensorData>& list() const { return list_; }
  const std::vector<TensorValues>& expected() const { return expected_; }
  DeviceValues::Capacity capacity() const { return {static_cast<int>(list_.size()), elements_}; }

 private:
  std::vector<std::unique_ptr<void, DeviceFree>> memory_;
  std::vector<TensorData> list_;
  std::vector<TensorValues> expected_;
  std::int64_t elements_ = 0;
};

std::vector<TensorValues> wait_for(DeviceValues& values) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!values.is_ready() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto results = values.results();
  return {results.begin(), results.end()};
}

void check_equal(const std::vector<TensorValues>& results, const DeviceTensors& tensors) {
  REQUIRE(results.size() == tensors.expected().size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    CAPTURE(i, tensors.list()[i].elements, static_cast<int>(tensors.list()[i].kind));
    CHECK(results[i].fingerprint == tensors.expected()[i].fingerprint);
    CHECK(are_same_bits(results[i], tensors.expected()[i]));
  }
}

DeviceTensors tensors_of_every_size() {
  DeviceTensors tensors;
  for (const ScalarKind kind : kKinds) {
    for (const std::int64_t elements : {0, 1, 7, 8, 31, 32, 33, 1000, 65537, 1000003}) {
      for (const int offset : {0, 1, 3}) {
        Tensor tensor(kind, elements);
        tensor.fill(static_cast<unsigned>(elements));
        const std::vector<std::uint64_t> special = special_bits(kind);
        for (std::size_t i = 0; i < special.size() && elements >= 1000; ++i) {
          tensor.set(static_cast<std::int64_t>(i) * 100 + 5, special[i]);
        }
        tensors.add(tensor, offset);
      }
    }
  }
  for (int i = 0; i < 100; ++i) tensors.add(Tensor(ScalarKind::kFloat, 40 + i).fill(9));
  return tensors;
}

}  // namespace

TEST_CASE("A GPU computes the bits of the CPU, again and again", "[gpu]") {
  require_device();
  const DeviceTensors tensors = tensors_of_every_size();
  DeviceValues values(tensors.capacity());
  for (int round = 0; round < 20; ++round) {
    REQUIRE(values.launch(tensors.list(), nullptr));
    check_equal(wait_for(values), tensors);
  }
}

TEST_CASE("A launch is ordered on its stream and waits for nothing", "[gpu]") {
  require_device();
  Tensor tensor(ScalarKind::kFloat, 1 << 24);
  DeviceTensors tensors;
  tensors.add(tensor.fill(1));
  cudaStream_t stream = nullptr;
  DDPSCOPE_CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  DeviceValues values(tensors.capacity());
  auto* const begin = const_cast<void*>(tensors.list()[0].data);
  const auto bytes = static_cast<std::size_t>(tensor.bytes());
  for (int i = 0; i < 100; ++i) DDPSCOPE_CUDA_CALL(cudaMemsetAsync(begin, i, bytes, stream));
  DDPSCOPE_CUDA_CALL(cudaMemsetAsync(begin, 0, bytes, stream));
  REQUIRE(values.launch(tensors.list(), stream));
  CHECK_FALSE(values.launch(tensors.list(), stream));  // one list at a time
  CHECK(values.results().empty());
  const std::vector<TensorValues> results = wait_for(values);
  REQUIRE(results.size() == 1);
  CHECK(results[0].zero_count == 1 << 24);
  DDPSCOPE_CUDA_CALL(cudaStreamDestroy(stream));
}

TEST_CASE("A list over the capacity and a captured stream are refused", "[gpu]") {
  require_device();
  DeviceTensors tensors;
  tensors.add(Tensor(ScalarKind::kFloat, 1000000).fill(1));
  DeviceValues small({.tensors = 1, .elements = 1000});
  CHECK_FALSE(small.launch(tensors.list(), nullptr));

  DeviceValues values(tensors.capacity());
  cudaStream_t stream = nullptr;
  DDPSCOPE_CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  DDPSCOPE_CUDA_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK_FALSE(values.launch(tensors.list(), stream));
  cudaGraph_t graph = nullptr;
  DDPSCOPE_CUDA_CALL(cudaStreamEndCapture(stream, &graph));
  DDPSCOPE_CUDA_CALL(cudaGraphDestroy(graph));
  REQUIRE(values.launch(tensors.list(), stream));
  check_equal(wait_for(values), tensors);
  DDPSCOPE_CUDA_CALL(cudaStreamDestroy(stream));
}

TEST_CASE("The constructor does not wait, and a launch does not allocate either", "[gpu]") {
  require_device();
  DeviceTensors tensors;
  for (int i = 0; i < 200; ++i) tensors.add(Tensor(ScalarKind::kFloat, 40000 + i).fill(3));
  cudaStream_t stream = nullptr;
  DDPSCOPE_CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const CudaCalls before = cuda_calls();
  DeviceValues values(tensors.capacity());
  const CudaCalls made = cuda_calls();
  CHECK(made.waits == before.waits);
  CHECK(made.allocations > before.allocations);
  for (int round = 0; round < 5; ++round) {
    REQUIRE(values.launch(tensors.list(), stream));
    check_equal(wait_for(values), tensors);
  }
  CHECK(cuda_calls().waits == before.waits);
  CHECK(cuda_calls().allocations == made.allocations);
  CHECK(values.failure().empty());
  DDPSCOPE_CUDA_CALL(cudaStreamDestroy(stream));
}

TEST_CASE("While another stream is captured, on any thread, the capture goes on", "[gpu]") {
  require_device();
  DeviceTensors tensors;
  tensors.add(Tensor(ScalarKind::kFloat, 100000).fill(1));
  cudaStream_t captured = nullptr, beside = nullptr;
  DDPSCOPE_CUDA_CALL(cudaStreamCreate(&captured));
  DDPSCOPE_CUDA_CALL(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  DDPSCOPE_CUDA_CALL(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
  CHECK(DeviceValues::is_capturing(captured));
  CHECK(DeviceValues::is_capturing(nullptr));  // it would wait for the captured one
  CHECK_FALSE(DeviceValues::is_capturing(beside));
  DeviceValues values(tensors.capacity());
  CHECK_FALSE(values.launch(tensors.list(), captured));
  CHECK_FALSE(values.launch(tensors.list(), nullptr));
  CHECK(values.failure().empty());
  REQUIRE(values.launch(tensors.list(), beside));
  check_equal(wait_for(values), tensors);
  cudaGraph_t graph = nullptr;
  DDPSCOPE_CUDA_CALL(cudaStreamEndCapture(captured, &graph));  // fails if it was broken
  DDPSCOPE_CUDA_CALL(cudaGraphDestroy(graph));
  DDPSCOPE_CUDA_CALL(cudaStreamDestroy(captured));
  DDPSCOPE_CUDA_CALL(cudaStreamDestroy(beside));
}
