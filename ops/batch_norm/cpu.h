#pragma once

#include <cstdint>
#include <vector>

#include "ops/batch_norm/cpu/kernels.h"

/// The passes over a tensor in host memory. Tiles depend on the shape alone and their results are
/// merged by index, so the bits do not depend on the number of threads.
namespace ddpscope::batch_norm {

enum class Layout : std::uint8_t {
  kPlanes,  ///< as NCHW: the values of a channel and a sample lie together
  kRows,    ///< as channels-last, and 2-D input
};

/// How x, and likewise dy, y and dx, lie in memory, without gaps.
struct NormShape {
  ScalarKind kind = ScalarKind::kFloat;
  Layout layout = Layout::kPlanes;
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t plane = 1;  ///< values per sample and channel

  std::int64_t values() const { return batch * plane; }  ///< per channel
  std::int64_t elements() const { return values() * channels; }
};

/// Of one channel: a mean and a sum of squared differences from it, or the two sums of the backward
/// pass. One number per channel each.
struct ChannelPair {
  std::vector<double> first;
  std::vector<double> second;
};

/// Numbers of each channel by which values become others.
struct ChannelTerms {
  const double* mean = nullptr;
  const double* scale = nullptr;
  const double* shift = nullptr;
  const double* slope = nullptr;  ///< of `grad_input` alone
};

/// Mean and sum of (x - mean)^2 of each channel.
ChannelPair measure(const NormShape& shape, const void* x);
/// Sums of dy and of dy * (x - mean).
ChannelPair reduce(const NormShape& shape, const void* x, const void* dy, const double* mean);
/// y = (x - mean) * scale + shift.
void normalize(const NormShape& shape, const void* x, const ChannelTerms& terms, void* y);
/// dx = (dy - shift - (x - mean) * slope) * scale.
void grad_input(const NormShape& shape, const void* x, const void* dy, const ChannelTerms& terms,
                void* dx);

}  // namespace ddpscope::batch_norm
