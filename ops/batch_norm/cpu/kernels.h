#pragma once

#include <cstdint>

// Shared by files that are compiled for different processors: declarations and constants only, for
// an inline function here could reach a processor that it was not compiled for.
namespace ddpscope::batch_norm {

enum class ScalarKind : std::uint8_t { kHalf, kBFloat16, kFloat, kDouble };

inline constexpr std::int64_t kRunValues = 16384;  // of a tile of planes
inline constexpr std::int64_t kBandRows = 256;     // of a tile of rows
inline constexpr std::int64_t kBandChannels = 256;

/// Values [begin, end) of one channel, counted over its planes. Positions are in elements.
struct ChannelRun {
  std::int64_t offset = 0;  ///< of the channel's first plane
  std::int64_t plane = 0;   ///< values of a plane
  std::int64_t stride = 0;  ///< from one plane of the channel to the next
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Values [begin, end) of planes that follow each other in memory, channel after channel.
struct Stretch {
  std::int64_t plane = 0;
  std::int64_t channels = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Adjacent channels, at most kBandChannels, of some rows.
struct Band {
  std::int64_t channel = 0;  ///< the first
  std::int64_t offset = 0;   ///< of the first value
  std::int64_t stride = 0;   ///< from row to row
  std::int64_t rows = 0;
  std::int64_t channels = 0;
};

/// What a sum reads and writes. `x` and `dy` begin with the tensor; the arrays hold one number per
/// channel, from the channel on that a ChannelRun or Band begins with.
struct SumOperands {
  const void* x = nullptr;
  const void* dy = nullptr;
  const double* mean = nullptr;
  double* first = nullptr;   ///< mean, or sum of dy
  double* second = nullptr;  ///< sum of (x - mean)^2, or of dy * (x - mean)
};

/// What a kernel reads and writes that computes a value from each: all begin with the tensor. Those
/// of the channels are in the type that is computed in: Float, of Double input Double.
struct MapOperands {
  const void* x = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;
  const void* mean = nullptr;
  const void* scale = nullptr;  ///< of y and of dx
  const void* shift = nullptr;  ///< added to y, or taken from dy
  const void* slope = nullptr;  ///< times x - mean, taken from dy
};

/// y = (x - mean) * scale + shift; dx = (dy - shift - (x - mean) * slope) * scale.
struct Kernels {
  void (*measure_run)(const SumOperands&, const ChannelRun&);
  void (*measure_band)(const SumOperands&, const Band&);
  void (*reduce_run)(const SumOperands&, const ChannelRun&);
  void (*reduce_band)(const SumOperands&, const Band&);
  void (*normalize_stretch)(const MapOperands&, const Stretch&);
  void (*normalize_band)(const MapOperands&, const Band&);
  void (*grad_input_stretch)(const MapOperands&, const Stretch&);
  void (*grad_input_band)(const MapOperands&, const Band&);
};

struct KernelTable {
  Kernels by_kind[4];  // in the order of ScalarKind
};
extern const KernelTable kPortableKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace ddpscope::batch_norm
