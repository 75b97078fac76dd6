#pragma once

#include <cstdint>

#include "values/tensor_values.h"

// Shared by files that are compiled for different processors: declarations and constants only, for
// an inline function here could reach a processor that it was not compiled for.
namespace ddpscope::values {

inline constexpr int kBlockElements = 1024;
inline constexpr int kLanes = 8;
inline constexpr int kGroupRows =
    4;  // as many as sketches: their signs are rows of a Hadamard matrix
inline constexpr int kGroupElements = kLanes * kGroupRows;
inline constexpr int kMaxElementBytes = 8;

/// One key per word of 8 bytes of a block. Each half also signs one element: word i / 2, half i %
/// 2, top bit. All of it is xored with the key of the block.
struct alignas(64) KeyTable {
  std::uint64_t words[kBlockElements * kMaxElementBytes / 8];
};
extern const KeyTable kKeys;

/// +1 or -1 for each element of a block, where the top bit of its half of a key is clear or set.
struct alignas(64) SignTable {
  double of[kBlockElements];
};
extern const SignTable kSigns;

struct BlockValues {
  TensorValues values;
  bool has_nonfinite = false;  ///< then only fingerprint and zero_count hold
};

/// Measures `groups` full groups of one block.
using BlockKernel = BlockValues (*)(const void* data, int groups, std::uint64_t block_key);

/// Of these the fingerprint alone.
using BitsKernel = std::uint64_t (*)(const void* data, int groups, std::uint64_t block_key);

struct BlockKernels {
  BlockKernel by_kind[4];  // in the order of ScalarKind
  BitsKernel bits_by_kind[4];
};
extern const BlockKernels kPortableKernels;
extern const BlockKernels kAvx2Kernels;
extern const BlockKernels kAvx512Kernels;

/// The bits of the largest magnitude among `elements`; 0 if there are none.
using LargestKernel = std::uint64_t (*)(const void* data, std::int64_t elements);

struct LargestKernels {
  LargestKernel by_kind[4];  // in the order of ScalarKind
};
extern const LargestKernels kPortableLargest;
extern const LargestKernels kAvx2Largest;
extern const LargestKernels kAvx512Largest;

}  // namespace ddpscope::values
