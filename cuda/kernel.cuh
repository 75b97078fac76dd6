#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cuda/atomic>

// What kernels say to the device, in one place: tests run the same kernels on the CPU with a header
// of this name that comes before this one.
namespace ddpscope::cuda {

inline constexpr int kThreads = 256;  // of every block
inline constexpr int kWarp = 32;
inline constexpr int kWarps = kThreads / kWarp;

/// What a launch is given, beside its own arguments.
struct Grid {
  std::int64_t blocks = 1;  // at most 2^31 - 1
  CUstream_st* stream = nullptr;
};

/// Queues one launch with one argument; what it returns belongs to this launch alone.
template <class Arguments>
int launch(void (*kernel)(Arguments), const Grid& grid, const Arguments& arguments) noexcept {
  void* values[] = {const_cast<Arguments*>(&arguments)};
  const cudaError_t launched =
      cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                       dim3(static_cast<unsigned>(grid.blocks)), dim3(kThreads), values,
                       /*sharedMem=*/0, grid.stream);
  if (launched != cudaSuccess) static_cast<void>(cudaGetLastError());
  return launched;
}

/// Adds one to what all blocks count, and tells what was there. Who counts sees what those before
/// it had written; threads that its block has met at a barrier count with it.
__device__ inline unsigned count_arrival(unsigned* counter) {
  const ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device> count(*counter);
  return count.fetch_add(1, ::cuda::std::memory_order_acq_rel);
}

/// What another block has written: past the first cache, which may hold what was there before.
__device__ inline double read_written(const double* value) { return __ldcg(value); }
template <class Vector>
__device__ Vector read_written_vector(const void* data) {
  static_assert(sizeof(Vector) == sizeof(uint4));
  const uint4 bits = __ldcg(static_cast<const uint4*>(data));
  Vector vector;
  memcpy(&vector, &bits, sizeof vector);
  return vector;
}

/// 16 bytes.
template <class Vector>
__device__ Vector load_vector(const void* data) {
  static_assert(sizeof(Vector) == sizeof(uint4));
  return *static_cast<const Vector*>(data);
}
/// 16 bytes that nobody reads soon.
template <class Vector>
__device__ void store_vector(void* data, const Vector& vector) {
  static_assert(sizeof(Vector) == sizeof(uint4));
  uint4 bits;
  memcpy(&bits, &vector, sizeof bits);
  __stcs(static_cast<uint4*>(data), bits);
}
template <class T>
__device__ T load_one(const void* data) {
  return *static_cast<const T*>(data);
}
template <class T>
__device__ void store_one(void* data, T value) {
  *static_cast<T*>(data) = value;
}

/// The value of the lane `distance` away; every lane of the warp takes part. T is a struct of
/// 8-byte words.
template <class T>
__device__ T from_lane(T mine, int distance) {
  static_assert(sizeof(T) % 8 == 0);
  unsigned long long words[sizeof(T) / 8];
  memcpy(words, &mine, sizeof words);
  for (unsigned long long& word : words) word = __shfl_xor_sync(0xFFFFFFFF, word, distance);
  memcpy(&mine, words, sizeof words);
  return mine;
}

}  // namespace ddpscope::cuda
