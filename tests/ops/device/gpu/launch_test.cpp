// What only a GPU shows: capture, launches that do not wait, and tensors that a host is too small
// for. Needs no LibTorch.
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "cuda/cuda_call.h"
#include "ops/device/kernels.h"
#include "tests/support/catch.h"

namespace ddpscope::cuda {
namespace {

constexpr int kSkipped = 77;  // what ctest counts as skipped

void require_device() {
  int devices = 0;
  const cudaError_t asked = cudaGetDeviceCount(&devices);
  if (asked == cudaSuccess && devices > 0) return;
  std::cout << "skipped: "
            << (asked == cudaSuccess ? "there is no CUDA device"
                                     : take_error(asked, "cudaGetDeviceCount(&devices)"))
            << std::endl;
  std::_Exit(kSkipped);
}

struct DeviceFree {
  void operator()(void* memory) const { DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaFree(memory)); }
};

/// Zeros of the device.
template <class T>
struct Memory {
  explicit Memory(std::int64_t number) : count(number) {
    void* made = nullptr;
    DDPSCOPE_CUDA_CALL(cudaMalloc(&made, bytes()));
    data.reset(static_cast<T*>(made));
    DDPSCOPE_CUDA_CALL(cudaMemset(made, 0, bytes()));
  }
  void set(const std::vector<T>& values) {
    DDPSCOPE_CUDA_CALL(cudaMemcpy(data.get(), values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  std::vector<T> get() const {
    std::vector<T> values(static_cast<std::size_t>(count));
    DDPSCOPE_CUDA_CALL(cudaMemcpy(values.data(), data.get(), bytes(), cudaMemcpyDeviceToHost));
    return values;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(count) * sizeof(T); }
  std::int64_t count;
  std::unique_ptr<T, DeviceFree> data;
};

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  return values;
}

/// All launches of one forward, backward and clip over memory of their own.
struct Work {
  static constexpr std::int64_t kBatch = 9, kChannels = 24, kPlane = 1000;
  static constexpr std::int64_t kValues = kBatch * kChannels * kPlane;
  NormView view = {
      .kind = ScalarKind::kFloat, .batch = kBatch, .channels = kChannels, .plane = kPlane};
  Memory<float> x{kValues}, y{kValues}, dx{kValues};
  Memory<double> record{forward_record_items(kChannels, false)};
  Memory<double> sums{backward_record_items(kChannels, false)};
  Memory<double> statistics{statistics_items(kChannels)};
  Memory<double> partials{norm_workspace_items(view)}, four{4 * kChannels};
  Memory<unsigned> tickets{norm_tickets(view)};
  Memory<double> result{ClipLayout{1, 0}.items()};
  ClipRow row = {.data = dx.data.get(), .elements = kValues, .kind = ScalarKind::kFloat};
  Memory<ClipSums> rows{1 + clip_parts({&row, 1})};

  Work() { x.set(numbers(kValues)); }

  int queue(cudaStream_t stream) const { return queue_norm(stream) | queue_clip(stream); }

  int queue_norm(cudaStream_t stream) const {
    const Workspace workspace = {partials.data.get(), tickets.data.get()};
    int failed = launch_stats(
        {.view = view, .x = x.data.get(), .record = record.data.get(), .workspace = workspace},
        stream);
    failed |= launch_normalize({.view = view,
                                .x = x.data.get(),
                                .y = y.data.get(),
                                .records = record.data.get(),
                                .statistics = statistics.data.get(),
                                .eps = 1e-5,
                                .tickets = tickets.data.get()},
                               stream);
    failed |= launch_reduce({.view = view,
                             .x = x.data.get(),
                             .dy = y.data.get(),
                             .statistics = statistics.data.get(),
                             .record = sums.data.get(),
                             .own = four.data.get(),
                             .workspace = workspace},
                            stream);
    failed |= launch_grad_input({.view = view,
                                 .x = x.data.get(),
                                 .dy = x.data.get(),
                                 .dx = dx.data.get(),
                                 .statistics = statistics.data.get(),
                                 .records = sums.data.get(),
                                 .total = four.data.get() + 2 * kChannels},
                                stream);
    return failed;
  }

  int queue_clip(cudaStream_t stream) const {
    int failed = launch_clip_norm({.rows = {&row, 1},
                                   .rule = {.max_norm = 0.5},
                                   .layout = {1, 0},
                                   .buffers = {.rows = rows.data.get(),
                                               .parts = rows.data.get() + 1,
                                               .tickets = tickets.data.get(),
                                               .result = result.data.get()}},
                                  stream);
    failed |= launch_clip_write({.rows = {&row, 1},
                                 .sums = rows.data.get(),
                                 .factor = result.data.get() + ClipLayout::kFactor},
                                stream);
    return failed;
  }
};

struct Stream {
  Stream() { DDPSCOPE_CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Stream() { DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaStreamDestroy(stream)); }
  cudaStream_t stream = nullptr;
};

constexpr std::int64_t kHuge = (std::int64_t{1} << 31) + 4096;

}  // namespace

TEST_CASE("A captured forward, backward and clip give the eager bits when replayed", "[gpu]") {
  require_device();
  Work work;
  const Stream own;
  REQUIRE(work.queue(own.stream) == 0);
  DDPSCOPE_CUDA_CALL(cudaStreamSynchronize(own.stream));
  const auto gradients = work.dx.get();
  const auto result = work.result.get();
  CHECK(result[ClipLayout::kFactor] < 1);

  cudaGraph_t graph = nullptr;
  DDPSCOPE_CUDA_CALL(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal));
  REQUIRE(work.queue(own.stream) == 0);
  DDPSCOPE_CUDA_CALL(cudaStreamEndCapture(own.stream, &graph));
  std::size_t nodes = 0;
  DDPSCOPE_CUDA_CALL(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 6);  // as many launches, and nothing else
  cudaGraphExec_t replay = nullptr;
  DDPSCOPE_CUDA_CALL(cudaGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < 3; ++i) {
    DDPSCOPE_CUDA_CALL(cudaMemset(work.dx.data.get(), 0xFF, work.dx.bytes()));
    DDPSCOPE_CUDA_CALL(cudaGraphLaunch(replay, own.stream));
    DDPSCOPE_CUDA_CALL(cudaStreamSynchronize(own.stream));
    CHECK(work.dx.get() == gradients);
    CHECK(work.result.get()[ClipLayout::kTotal] == result[ClipLayout::kTotal]);
  }
  DDPSCOPE_CUDA_CALL(cudaGraphExecDestroy(replay));
  DDPSCOPE_CUDA_CALL(cudaGraphDestroy(graph));
}

TEST_CASE("Launches return while the stream is still at work", "[gpu]") {
  require_device();
  Work work;
  const Stream own;
  REQUIRE(work.queue(own.stream) == 0);  // loads the kernels
  DDPSCOPE_CUDA_CALL(cudaStreamSynchronize(own.stream));
  Memory<char> large(std::int64_t{1} << 30);
  for (int i = 0; i < 100; ++i) {
    DDPSCOPE_CUDA_CALL(cudaMemsetAsync(large.data.get(), i, large.bytes(), own.stream));
  }
  REQUIRE(work.queue(own.stream) == 0);
  CHECK(cudaStreamQuery(own.stream) == cudaErrorNotReady);
  static_cast<void>(cudaGetLastError());
  DDPSCOPE_CUDA_CALL(cudaStreamSynchronize(own.stream));
}

TEST_CASE("A gradient of more than 2^31 elements is measured and scaled to its end", "[gpu]") {
  require_device();
  Memory<std::uint16_t> gradient(kHuge);  // halves
  const std::uint16_t four = 0x4400;
  DDPSCOPE_CUDA_CALL(
      cudaMemcpy(gradient.data.get() + kHuge - 1, &four, sizeof four, cudaMemcpyHostToDevice));
  ClipRow row = {.data = gradient.data.get(), .elements = kHuge, .kind = ScalarKind::kHalf};
  Memory<ClipSums> rows(1 + clip_parts({&row, 1}));
  Memory<double> result(ClipLayout{1, 0}.items());
  Memory<unsigned> tickets(2);
  REQUIRE(launch_clip_norm({.rows = {&row, 1},
                            .rule = {.max_norm = 1},
                            .layout = {1, 0},
                            .buffers = {.rows = rows.data.get(),
                                        .parts = rows.data.get() + 1,
                                        .tickets = tickets.data.get(),
                                        .result = result.data.get()}},
                           nullptr) == 0);
  REQUIRE(launch_clip_write({.rows = {&row, 1},
                             .sums = rows.data.get(),
                             .factor = result.data.get() + ClipLayout::kFactor},
                            nullptr) == 0);
  CHECK(result.get()[ClipLayout::kTotal] == 4);
  std::uint16_t last = 0;
  DDPSCOPE_CUDA_CALL(
      cudaMemcpy(&last, gradient.data.get() + kHuge - 1, sizeof last, cudaMemcpyDeviceToHost));
  CHECK(last == 0x3C00);  // 4 * 0.25
}

TEST_CASE("A batch of more than 2^31 values is measured to its end", "[gpu]") {
  require_device();
  Memory<std::uint16_t> batch(kHuge);
  DDPSCOPE_CUDA_CALL(cudaMemset(batch.data.get(), 0x3C, batch.bytes()));
  const double value = 1 + 60.0 / 1024;  // 0x3C3C
  const std::uint16_t other = 0x4400;    // 4
  DDPSCOPE_CUDA_CALL(
      cudaMemcpy(batch.data.get() + kHuge - 1, &other, sizeof other, cudaMemcpyHostToDevice));
  for (const NormLayout layout : {NormLayout::kPlanes, NormLayout::kRows}) {
    const NormView view = {.kind = ScalarKind::kHalf,
                           .layout = layout,
                           .batch = 2,
                           .channels = 8,
                           .plane = kHuge / 16};
    Memory<double> record(forward_record_items(8, false)), partials(norm_workspace_items(view));
    Memory<unsigned> tickets(norm_tickets(view));
    REQUIRE(launch_stats({.view = view,
                          .x = batch.data.get(),
                          .record = record.data.get(),
                          .workspace = {partials.data.get(), tickets.data.get()}},
                         nullptr) == 0);
    const auto found = record.get();
    const double n = static_cast<double>(kHuge / 8), away = 4 - value;
    CHECK(found[0] == n);
    CHECK(found[1] == Approx(value).epsilon(1e-9));
    CHECK(found[1 + 7] - value == Approx(away / n).epsilon(1e-2));
    CHECK(found[1 + 8 + 7] == Approx(away * away).epsilon(1e-3));
    CHECK(found[1 + 8 + 6] == Approx(0).margin(1e-3));
  }
}

}  // namespace ddpscope::cuda
