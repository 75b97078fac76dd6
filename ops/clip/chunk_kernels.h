#pragma once

#include <cstdint>

// Shared by files that are compiled for different processors: declarations and constants only, for
// an inline function here could reach a processor that it was not compiled for.
namespace ddpscope::clip {

enum class Kind : std::uint8_t { kHalf, kBFloat16, kFloat, kDouble };
inline constexpr int kKinds = 4;

/// What is summed beside the search for the largest magnitude.
enum class Sum : std::uint8_t { kNone, kMagnitudes, kSquares };
inline constexpr int kSums = 3;

inline constexpr int kLanes = 16;

/// Element i of a chunk is added to lane i % kLanes, so that every path adds in the same order.
struct LaneSums {
  double lanes[kLanes] = {};
  std::uint64_t largest = 0;  ///< bits of the magnitude, as float unless the kind is double
};

/// Adds so many groups of kLanes elements to the sums.
using SumKernel = void (*)(const void* data, std::int64_t groups, LaneSums& sums);
/// x = x * factor: the product is of float, or of double for double, and rounded once.
using ScaleKernel = void (*)(void* data, std::int64_t elements, double factor);

struct ChunkKernels {
  SumKernel sum[kKinds][kSums];
  ScaleKernel scale[kKinds];
};
extern const ChunkKernels kPortableKernels;
extern const ChunkKernels kAvx2Kernels;

bool has_avx2();
/// The fastest that this processor runs.
const ChunkKernels& chunk_kernels();

}  // namespace ddpscope::clip
