#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/cuda_call.h"

namespace ddpscope::benchmark {

/// One of the ways that take turns: what it queues, and the bytes that it must move.
struct Way {
  std::string name;
  double bytes = 0;
  std::function<void(cudaStream_t)> queue;
  std::vector<double> us = {};
};

struct DeviceFree {
  void operator()(void* memory) const { DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaFree(memory)); }
};
using DeviceMemory = std::shared_ptr<void>;

inline DeviceMemory device_memory(std::int64_t bytes, int pattern) {
  void* memory = nullptr;
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 16));
  DDPSCOPE_CUDA_CALL(cudaMalloc(&memory, size));
  DDPSCOPE_CUDA_CALL(cudaMemset(memory, pattern, size));
  return {memory, DeviceFree()};
}

/// Numbers between -1 and 1 of chance: bytes that are all alike may move faster.
inline DeviceMemory device_numbers(std::int64_t bytes, bool is_float) {
  constexpr std::int64_t kPiece = 4 << 20;
  std::vector<std::uint16_t> halves(kPiece / 2);
  std::minstd_rand random(1);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float value = static_cast<float>(random() % 65536) / 32768 - 1;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool is_low = is_float && i % 2 == 0;  // of a float of which the next has the rest
    halves[i] = static_cast<std::uint16_t>(is_low ? random() : bits >> 16);
  }
  DeviceMemory memory = device_memory(bytes, 0);
  for (std::int64_t at = 0; at < bytes; at += kPiece) {
    DDPSCOPE_CUDA_CALL(cudaMemcpy(static_cast<char*>(memory.get()) + at, halves.data(),
                                  static_cast<std::size_t>(std::min(kPiece, bytes - at)),
                                  cudaMemcpyHostToDevice));
  }
  return memory;
}

/// Turns of all ways, each warm and with caches that something else has filled. Times are those of
/// the device: events around ten calls, or around one where the caches are cold.
class Turns {
 public:
  Turns(cudaStream_t stream, int turns) : stream_(stream), turns_(turns) {
    DDPSCOPE_CUDA_CALL(cudaEventCreate(&begin_));
    DDPSCOPE_CUDA_CALL(cudaEventCreate(&end_));
  }
  ~Turns() {
    DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaEventDestroy(begin_));
    DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaEventDestroy(end_));
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// The first way is the copy that others are compared with.
  void measure(const std::string& title, std::vector<Way> ways) {
    for (const bool is_cold : {false, true}) {
      for (Way& way : ways) way.us.clear();
      for (int turn = -10; turn < turns_; ++turn) {
        for (Way& way : ways) {
          const double us = time(way, is_cold);
          if (turn >= 0) way.us.push_back(us);
        }
      }
      print(title + (is_cold ? ", cold" : ", warm"), ways);
    }
  }

 private:
  double time(const Way& way, bool is_cold) {
    constexpr double kLongUs = 5000;  // one call is long enough to be timed
    const int calls = is_cold || (!way.us.empty() && way.us[0] > kLongUs) ? 1 : 10;
    if (is_cold) {
      DDPSCOPE_CUDA_CALL(cudaMemsetAsync(scratch_.get(), 1, kScratchBytes, stream_));
    }
    DDPSCOPE_CUDA_CALL(cudaEventRecord(begin_, stream_));
    for (int i = 0; i < calls; ++i) way.queue(stream_);
    DDPSCOPE_CUDA_CALL(cudaEventRecord(end_, stream_));
    DDPSCOPE_CUDA_CALL(cudaEventSynchronize(end_));
    float ms = 0;
    DDPSCOPE_CUDA_CALL(cudaEventElapsedTime(&ms, begin_, end_));
    return ms * 1000 / calls;
  }

  static double at_share(std::vector<double> values, double share) {
    std::ranges::sort(values);
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  }

  static void print(const std::string& title, const std::vector<Way>& ways) {
    std::printf("%s\n", title.c_str());
    const double copy_rate = ways[0].bytes / at_share(ways[0].us, 0.5);
    for (const Way& way : ways) {
      const double us = at_share(way.us, 0.5), rate = way.bytes / us;
      std::printf("  %-28s %9.2f us [%.2f, %.2f] %7.0f GB/s, %3.0f %% of the copy\n",
                  way.name.c_str(), us, at_share(way.us, 0.1), at_share(way.us, 0.9), rate / 1000,
                  100 * rate / copy_rate);
    }
    std::fflush(stdout);
  }

  static constexpr std::int64_t kScratchBytes = 256 << 20;
  cudaStream_t stream_;
  int turns_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  DeviceMemory scratch_ = device_memory(kScratchBytes, 0);
};

/// The way as one graph, which leaves the cost of its launches on the host out.
inline Way as_graph(const Way& way, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  DDPSCOPE_CUDA_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  way.queue(stream);
  DDPSCOPE_CUDA_CALL(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t replay = nullptr;
  DDPSCOPE_CUDA_CALL(cudaGraphInstantiate(&replay, graph, 0));
  DDPSCOPE_CUDA_CALL(cudaGraphDestroy(graph));
  const auto ended = [](CUgraphExec_st* exec) {
    DDPSCOPE_CUDA_CALL_NOEXCEPT(cudaGraphExecDestroy(exec));
  };
  const std::shared_ptr<CUgraphExec_st> kept(replay, ended);
  return {way.name + ", graph", way.bytes,
          [kept](cudaStream_t on) { DDPSCOPE_CUDA_CALL(cudaGraphLaunch(kept.get(), on)); }};
}

}  // namespace ddpscope::benchmark
