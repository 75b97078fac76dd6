#include "values/device_values.h"

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
DeviceArray<Item> zeroed_device_array(std::int64_t count) {
  void* memory = nullptr;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(Item);
  DDPSCOPE_CUDA_CALL(cudaMalloc(&memory, bytes));
  DeviceArray<Item> array(static_cast<Item*>(memory));
  DDPSCOPE_CUDA_CALL(cudaMemset(memory, 0, bytes));
  return array;
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
  bool is_ready = true;
};

std::string DeviceValues::why_unavailable() {
  int devices = 0;
  const cudaError_t asked = cudaGetDeviceCount(&devices);
  if (asked != cudaSuccess) return cuda::take_error(asked, "cudaGetDeviceCount(&devices)");
  return devices == 0 ? "there is no CUDA device" : "";
}

DeviceValues::DeviceValues(Capacity capacity) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.capacity = {capacity.tensors < 1 ? 1 : capacity.tensors, capacity.elements};
  state.chunks = capacity.elements / kChunkElements + state.capacity.tensors;
  DDPSCOPE_CUDA_CALL(cuda::load_value_kernel());
  state.workspace = zeroed_device_array<TensorValues>(state.chunks);
  state.tickets = zeroed_device_array<unsigned>(state.capacity.tensors);
  // The zeros are written on the default stream, which other streams need not wait for.
  DDPSCOPE_CUDA_CALL(cudaStreamSynchronize(nullptr));

  void* pinned = nullptr;
  const std::size_t bytes = static_cast<std::size_t>(state.capacity.tensors) * sizeof(TensorValues);
  DDPSCOPE_CUDA_CALL(cudaHostAlloc(&pinned, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
  state.results.reset(static_cast<TensorValues*>(pinned));
  cudaEvent_t event = nullptr;
  DDPSCOPE_CUDA_CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  state.written.reset(event);
}

DeviceValues::~DeviceValues() {
  if (!is_ready()) DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaEventSynchronize(state_->written.get()));
}

bool DeviceValues::launch(std::span<const TensorData> tensors, CUstream_st* stream) noexcept {
  State& state = *state_;
  if (!is_ready() || tensors.size() > static_cast<std::size_t>(state.capacity.tensors) ||
      cuda::value_chunks(tensors) > state.chunks) {
    return false;
  }
  const cuda::ValueBuffers buffers = {state.results.get(), state.workspace.get(),
                                      state.tickets.get()};
  const cudaError_t launched = cuda::launch_values(tensors, buffers, stream);
  const bool is_launched = DDPSCOPE_CUDA_CALL_NOEXCEPT(launched);
  if (launched == cudaErrorStreamCaptureUnsupported) return false;
  // The first part of a long list may be under way although the rest was refused.
  const bool is_recorded =
      DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaEventRecord(state.written.get(), stream));
  state.launched = is_launched && is_recorded ? tensors.size() : 0;
  state.is_ready = false;
  return is_launched && is_recorded;
}

bool DeviceValues::is_ready() noexcept {
  State& state = *state_;
  if (state.is_ready) return true;
  const cudaError_t asked = cudaEventQuery(state.written.get());
  if (!DDPSCOPE_CUDA_CALL_NOEXCEPT(asked)) {
    if (asked == cudaErrorNotReady) return false;
    state.launched = 0;  // the device is lost
  }
  TensorValues* const results = state.results.get();
  for (std::size_t i = 0; i < state.launched; ++i) results[i] = values::with_one_nan(results[i]);
  state.is_ready = true;
  return true;
}

std::span<const TensorValues> DeviceValues::results() noexcept {
  if (!is_ready()) return {};
  return {state_->results.get(), state_->launched};
}

}  // namespace ddpscope
