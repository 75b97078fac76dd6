#include "benchmarks/ops/read_floor.h"

std::uint64_t read_all(const std::uint64_t* words, std::int64_t count) {
  std::uint64_t sums[32] = {};
  for (std::int64_t i = 0; i < count; i += 32) {
    for (int lane = 0; lane < 32; ++lane) sums[lane] ^= words[i + lane];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum ^= part;
  return sum;
}
