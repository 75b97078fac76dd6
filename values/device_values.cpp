#include "values/device_values.h"

#include "cuda/beside_captures.h"
#include "cuda/cuda_call.h"
#include "values/cuda/launch.h"
#include "values/lane.h"

namespace ddpscope {
namespace {

struct DeviceFree {
  void operator()(void* memory) const { DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaFree(memory)); }
};
struct HostFree {
  void operator()(void* memory) const { DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaFreeHost(memory)); }
};
struct EventDestroy {
  void operator()(cudaEvent_t event) const { DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaEventDestroy(event)); }
};
template <typename Item>
using DeviceArray = std::unique_ptr<Item, DeviceFree>;

template <typename Item>
DeviceArray<Item> device_array(std::int64_t count) {
  void* memory = nullptr;
  DDPSCOPE_CUDA_CALL(cudaMalloc(&memory, static_cast<std::size_t>(count) * sizeof(Item)));
  return DeviceArray<Item>(static_cast<Item*>(memory));
}

}  // namespace

struct DeviceValues::State {
  Capacity capacity;
  std::int64_t chunks = 0;
  DeviceArray<TensorValues> workspace;
  DeviceArray<unsigned> tickets;
  std::unique_ptr<TensorValues, HostFree> results;  // pinned: the kernel writes to it
  std::unique_ptr<CUevent_st, EventDestroy> written;
  std::size_t launched = 0;
  bool is_zeroed = false;  // the tickets
  bool is_ready = true;
  cudaError_t failed = cudaSuccess;

  bool succeeded(cudaError_t code) noexcept {
    // At the end of the process that is no failure.
    if (failed == cudaSuccess && code != cudaErrorCudartUnloading) failed = code;
    return DDPSCOPE_CUDA_CALL_NOEXCEPT(code);
  }
};

std::string DeviceValues::why_unavailable() {
  int devices = 0;
  const cudaError_t asked = cudaGetDeviceCount(&devices);
  if (asked != cudaSuccess) return cuda::take_error(asked, "cudaGetDeviceCount(&devices)");
  return devices == 0 ? "there is no CUDA device" : "";
}

bool DeviceValues::is_capturing(CUstream_st* stream) noexcept {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  // Of the default stream this is an error while another stream is captured.
  return !DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaStreamIsCapturing(stream, &capture)) ||
         capture != cudaStreamCaptureStatusNone;
}

DeviceValues::DeviceValues(Capacity capacity) : state_(std::make_unique<State>()) {
  const cuda::BesideCaptures beside;
  State& state = *state_;
  state.capacity = {capacity.tensors < 1 ? 1 : capacity.tensors, capacity.elements};
  state.chunks = capacity.elements / kChunkElements + state.capacity.tensors;
  DDPSCOPE_CUDA_CALL(cuda::load_value_kernel());
  state.workspace = device_array<TensorValues>(state.chunks);
  state.tickets = device_array<unsigned>(state.capacity.tensors);

  void* pinned = nullptr;
  const std::size_t bytes = static_cast<std::size_t>(state.capacity.tensors) * sizeof(TensorValues);
  DDPSCOPE_CUDA_CALL(cudaHostAlloc(&pinned, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
  state.results.reset(static_cast<TensorValues*>(pinned));
  cudaEvent_t event = nullptr;
  DDPSCOPE_CUDA_CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  state.written.reset(event);
}

DeviceValues::~DeviceValues() {
  const cuda::BesideCaptures beside;
  if (!is_ready()) DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaEventSynchronize(state_->written.get()));
}

// Before the first launch and on its stream: each launch leaves zeros behind, and no list is
// launched before the one before it has passed.
bool DeviceValues::zero_tickets(CUstream_st* stream) noexcept {
  State& state = *state_;
  if (state.is_zeroed) return true;
  const std::size_t bytes = static_cast<std::size_t>(state.capacity.tensors) * sizeof(unsigned);
  state.is_zeroed = state.succeeded(cudaMemsetAsync(state.tickets.get(), 0, bytes, stream));
  return state.is_zeroed;
}

bool DeviceValues::launch(std::span<const TensorData> tensors, CUstream_st* stream) noexcept {
  State& state = *state_;
  if (!is_ready() || tensors.size() > static_cast<std::size_t>(state.capacity.tensors) ||
      cuda::value_chunks(tensors) > state.chunks || is_capturing(stream)) {
    return false;
  }
  if (!zero_tickets(stream)) return false;
  const cuda::ValueBuffers buffers = {state.results.get(), state.workspace.get(),
                                      state.tickets.get()};
  const bool is_launched = state.succeeded(cuda::launch_values(tensors, buffers, stream));
  // The first part of a long list may be under way although the rest was refused.
  const bool is_recorded = state.succeeded(cudaEventRecord(state.written.get(), stream));
  state.launched = is_launched && is_recorded ? tensors.size() : 0;
  state.is_ready = false;
  return is_launched && is_recorded;
}

bool DeviceValues::is_ready() noexcept {
  State& state = *state_;
  if (state.is_ready) return true;
  const cuda::BesideCaptures beside;
  const cudaError_t asked = cudaEventQuery(state.written.get());
  if (asked == cudaErrorNotReady) {
    DDPSCOPE_CUDA_CALL_NOEXCEPT(asked);
    return false;
  }
  if (!state.succeeded(asked)) state.launched = 0;  // the device is lost
  TensorValues* const results = state.results.get();
  for (std::size_t i = 0; i < state.launched; ++i) results[i] = values::with_one_nan(results[i]);
  state.is_ready = true;
  return true;
}

std::span<const TensorValues> DeviceValues::results() noexcept {
  if (!is_ready()) return {};
  return {state_->results.get(), state_->launched};
}

std::string_view DeviceValues::failure() const noexcept {
  return state_->failed == cudaSuccess ? "" : cudaGetErrorName(state_->failed);
}

}  // namespace ddpscope
