#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/values/reference.h"
#include "values/tensor_values.h"

using namespace ddpscope;
using namespace ddpscope::values_test;

namespace {

/// Threads take chunks as they come; their results are joined in order afterwards.
TensorValues measure_with_threads(const TensorData& tensor, int threads) {
  std::vector<TensorValues> chunks(static_cast<std::size_t>(chunk_count(tensor)));
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < chunks.size(); i = next++) {
      chunks[i] = measure_chunk(tensor, static_cast<std::int64_t>(i));
    }
  };
  std::vector<std::thread> pool;
  pool.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) pool.emplace_back(work);
  for (std::thread& thread : pool) thread.join();
  ChunkSum sum;
  for (const TensorValues& chunk : chunks) sum.add(chunk);
  return sum.total();
}

/// The definition: a binary tree over a power of two of chunks, the absent ones zero.
TensorValues padded_tree(const TensorData& tensor) {
  std::vector<TensorValues> level;
  for (std::int64_t i = 0; i < chunk_count(tensor); ++i) level.push_back(measure_chunk(tensor, i));
  std::size_t size = 1;
  while (size < level.size()) size *= 2;
  level.resize(size);
  for (; level.size() > 1; level.resize(level.size() / 2)) {
    for (std::size_t i = 0; i < level.size() / 2; ++i) {
      ChunkSum pair;
      pair.add(level[2 * i]);
      pair.add(level[2 * i + 1]);
      level[i] = pair.total();
    }
  }
  return level[0];
}

}  // namespace

TEST_CASE("The number of threads changes no bit", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  Tensor tensor(kind, 11 * kChunkElements + 12345);
  tensor.fill(1).set(70000, special_bits(kind)[0]);
  const TensorValues alone = measure_values(tensor.data());
  CHECK(alone.nan_count == 1);
  for (const int threads : {1, 2, 5}) CHECK(measure_with_threads(tensor.data(), threads) == alone);
}

TEST_CASE("Chunks are joined as a binary tree", "[values]") {
  const std::int64_t chunks = GENERATE(1, 2, 3, 5, 7, 8);
  Tensor tensor(ScalarKind::kFloat, chunks * kChunkElements - 5);
  tensor.fill(2);
  CHECK(chunk_count(tensor.data()) == chunks);
  CHECK(measure_values(tensor.data()) == padded_tree(tensor.data()));
}
