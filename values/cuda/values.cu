#include "values/cuda/launch.h"
#include "values/lane.h"

namespace ddpscope::cuda {
namespace {

using namespace values;

constexpr int kThreads = 256;
constexpr int kBlocksPerChunk = kThreads / kLanes;
static_assert(kBlocksPerChunk * kBlockElements == kChunkElements);
constexpr unsigned kWholeWarp = 0xFFFFFFFF;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;

struct Entry {
  const void* data;
  std::int64_t elements;
  unsigned first_chunk;
  ScalarKind kind;
};

// Passed by value: below the 4 KiB of arguments that every device and driver takes.
constexpr int kEntries = 150;
struct Table {
  Entry entries[kEntries];
  int count;
};
static_assert(sizeof(Table) + sizeof(ValueBuffers) <= 4000);

__device__ constexpr KeyTable kDeviceKeys = make_key_table();

/// The bits of TensorValues, which shared memory and registers of a warp carry one by one.
struct Fields {
  std::uint64_t bits[sizeof(TensorValues) / 8];
};
static_assert(sizeof(Fields) == sizeof(TensorValues));

__device__ Fields fields_of(const TensorValues& values) {
  Fields fields;
  memcpy(&fields, &values, sizeof fields);
  return fields;
}

__device__ TensorValues values_of(const Fields& fields) {
  TensorValues values;
  memcpy(&values, &fields, sizeof values);
  return values;
}

__device__ TensorValues merge_beside(const TensorValues& mine, int distance) {
  Fields theirs = fields_of(mine);
  for (std::uint64_t& bits : theirs.bits) bits = __shfl_xor_sync(kWholeWarp, bits, distance);
  return merge(mine, values_of(theirs));
}

__device__ const Entry& entry_of(const Table& table, unsigned chunk) {
  int begin = 0, end = table.count;
  while (end - begin > 1) {
    const int middle = (begin + end) / 2;
    (table.entries[middle].first_chunk <= chunk ? begin : end) = middle;
  }
  return table.entries[begin];
}

template <ScalarKind Kind>
__device__ TensorValues measure_thread(const Entry& entry, std::int64_t block_index, int lane) {
  const std::int64_t first = block_index * kBlockElements;
  const std::int64_t left = entry.elements - first;
  if (left <= 0) return {};
  using Bits = typename Scalar<Kind>::Bits;
  const int elements = left < kBlockElements ? static_cast<int>(left) : kBlockElements;
  const Block block = {static_cast<const Bits*>(entry.data) + first, elements,
                       key_of_block(block_index)};
  TensorValues values = measure_lane<Kind>(block, lane, kDeviceKeys);
  if (lane == 0) values.fingerprint += static_cast<std::uint64_t>(elements) * kLengthKey;
  return values;
}

__device__ TensorValues measure_thread(const Entry& entry, std::int64_t block, int lane) {
  switch (entry.kind) {
    case ScalarKind::kHalf:
      return measure_thread<ScalarKind::kHalf>(entry, block, lane);
    case ScalarKind::kBFloat16:
      return measure_thread<ScalarKind::kBFloat16>(entry, block, lane);
    case ScalarKind::kFloat:
      return measure_thread<ScalarKind::kFloat>(entry, block, lane);
    case ScalarKind::kDouble:
      return measure_thread<ScalarKind::kDouble>(entry, block, lane);
  }
  return {};
}

/// The sum over the thread block, on its first thread: lanes, then blocks as a binary tree.
__device__ TensorValues merge_chunk(TensorValues values) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    values = merge_beside(values, distance);
  }
  for (int distance = kLanes; distance < kWarp; distance *= 2) {
    values = merge_beside(values, distance);
  }
  __shared__ Fields of_warps[kWarps];
  const int warp = threadIdx.x / kWarp, place = threadIdx.x % kWarp;
  if (place == 0) of_warps[warp] = fields_of(values);
  __syncthreads();
  if (warp == 0) {
    values = values_of(of_warps[place % kWarps]);
    for (int distance = 1; distance < kWarps; distance *= 2) {
      values = merge_beside(values, distance);
    }
  }
  return values;
}

/// The binary tree over the chunks of one tensor, in place; the first chunk becomes the sum.
__device__ void merge_chunks(TensorValues* chunks, unsigned count) {
  for (unsigned step = 1; step < count; step *= 2) {
    for (unsigned i = threadIdx.x * 2 * step; i + step < count; i += kThreads * 2 * step) {
      chunks[i] = merge(chunks[i], chunks[i + step]);
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads)
    measure_kernel(const __grid_constant__ Table table, const ValueBuffers buffers) {
  const Entry& entry = entry_of(table, blockIdx.x);
  const unsigned index = static_cast<unsigned>(&entry - table.entries);
  const unsigned chunk = blockIdx.x - entry.first_chunk;
  const unsigned next = index + 1 < static_cast<unsigned>(table.count)
                            ? table.entries[index + 1].first_chunk
                            : gridDim.x;
  const unsigned chunks = next - entry.first_chunk;
  const std::int64_t block = std::int64_t{chunk} * kBlocksPerChunk + threadIdx.x / kLanes;
  const TensorValues sum = merge_chunk(measure_thread(entry, block, threadIdx.x % kLanes));
  if (chunks == 1) {
    if (threadIdx.x == 0) buffers.results[index] = sum;
    return;
  }

  __shared__ bool is_last;
  TensorValues* const of_tensor = buffers.workspace + entry.first_chunk;
  if (threadIdx.x == 0) {
    of_tensor[chunk] = sum;
    __threadfence();
    is_last = atomicAdd(&buffers.tickets[index], 1) == chunks - 1;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  merge_chunks(of_tensor, chunks);
  if (threadIdx.x == 0) {
    buffers.results[index] = of_tensor[0];
    buffers.tickets[index] = 0;
  }
}

unsigned chunks_of(const TensorData& tensor) {
  const std::int64_t chunks = (tensor.elements + kChunkElements - 1) / kChunkElements;
  return chunks < 1 ? 1 : static_cast<unsigned>(chunks);
}

}  // namespace

std::int64_t value_chunks(std::span<const TensorData> tensors) noexcept {
  std::int64_t chunks = 0;
  for (const TensorData& tensor : tensors) chunks += chunks_of(tensor);
  return chunks;
}

cudaError_t load_value_kernel() noexcept {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, measure_kernel);
}

cudaError_t launch_values(std::span<const TensorData> tensors, const ValueBuffers& buffers,
                          cudaStream_t stream) noexcept {
  ValueBuffers left = buffers;
  while (!tensors.empty()) {
    const auto now = tensors.first(tensors.size() < kEntries ? tensors.size() : kEntries);
    Table table = {};
    unsigned chunks = 0;
    for (const TensorData& tensor : now) {
      table.entries[table.count++] = {tensor.data, tensor.elements, chunks, tensor.kind};
      chunks += chunks_of(tensor);
    }
    measure_kernel<<<chunks, kThreads, 0, stream>>>(table, left);
    const cudaError_t launched = cudaPeekAtLastError();
    if (launched != cudaSuccess) return launched;
    tensors = tensors.subspan(now.size());
    left = {left.results + now.size(), left.workspace + chunks, left.tickets + now.size()};
  }
  return cudaSuccess;
}

}  // namespace ddpscope::cuda
