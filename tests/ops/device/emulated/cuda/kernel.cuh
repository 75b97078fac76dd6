#pragma once

// In the place of the header that kernels include: the same kernels, compiled for the CPU and run
// one block after the other. The threads of a block take turns, and wait for each other where the
// kernel says so.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#undef __device__
#undef __global__
#undef __grid_constant__
#undef __host__
#undef __launch_bounds__
#undef __shared__
#define __device__
#define __global__
#define __grid_constant__
#define __host__
#define __launch_bounds__(...)
#ifdef DDPSCOPE_FINDS_RACES
#define __shared__ static thread_local
#else
#define __shared__ static
#endif

namespace ddpscope::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;
inline constexpr int kWarps = kThreads / kWarp;

struct Grid {
  std::int64_t blocks = 1;
  CUstream_st* stream = nullptr;
};

namespace emulated {

struct Index {
  unsigned x = 0;
};
extern Index thread, block, grid;

/// Runs `body` for each thread of each block, both in orders of chance.
/// @throws std::logic_error where threads of one block do not meet at the same barriers.
void run_grid(std::int64_t blocks, const std::function<void()>& body);
void wait_for_block();
void wait_for_warp();
/// Memory of the warp, as many words as a lane has, for each lane.
std::uint64_t* words_of_lane(unsigned lane);

}  // namespace emulated

#define threadIdx ::ddpscope::cuda::emulated::thread
#define blockIdx ::ddpscope::cuda::emulated::block
#define gridDim ::ddpscope::cuda::emulated::grid

inline void __syncthreads() { emulated::wait_for_block(); }
inline void __threadfence() {}
inline void __threadfence_system() {}

inline double rsqrt(double value) { return 1 / std::sqrt(value); }
inline int __popc(unsigned bits) { return std::popcount(bits); }

inline unsigned count_arrival(unsigned* counter) {
  return __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
}

template <class Arguments>
int launch(void (*kernel)(Arguments), const Grid& grid, const Arguments& arguments) noexcept {
  static_assert(sizeof arguments <= 32764);
  const auto run = [&]() __attribute__((no_sanitize_thread)) { kernel(arguments); };
  emulated::run_grid(grid.blocks, run);
  return 0;
}

template <class T>
T load_one(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}
template <class T>
void store_one(void* data, T value) {
  std::memcpy(data, &value, sizeof value);
}
void check_aligned(const void* data);
template <class Vector>
Vector load_vector(const void* data) {
  check_aligned(data);
  return load_one<Vector>(data);
}
template <class Vector>
void store_vector(void* data, const Vector& vector) {
  check_aligned(data);
  store_one(data, vector);
}
inline double read_written(const double* value) { return load_one<double>(value); }
template <class Vector>
Vector read_written_vector(const void* data) {
  return load_vector<Vector>(data);
}

template <class T>
T from_lane(T mine, int distance) {
  const unsigned lane = threadIdx.x % kWarp;
  std::memcpy(emulated::words_of_lane(lane), static_cast<const void*>(&mine), sizeof mine);
  emulated::wait_for_warp();
  T theirs;
  std::memcpy(static_cast<void*>(&theirs),
              emulated::words_of_lane(lane ^ static_cast<unsigned>(distance)), sizeof theirs);
  emulated::wait_for_warp();
  return theirs;
}

}  // namespace ddpscope::cuda
