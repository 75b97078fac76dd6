#pragma once

#include <cmath>

#include "ops/clip/cuda/rows.cuh"
#include "ops/device/last_block.cuh"

/// From the sums of blocks to those of gradients, of modules and of all, by one block and always in
/// the same order.
namespace ddpscope::cuda {

inline constexpr double kInfinite = HUGE_VAL;

enum class PowerKind : std::uint8_t { kNone, kMagnitudes, kSquares, kSmallest, kPowers };

template <PowerKind P>
using Power = std::integral_constant<PowerKind, P>;

/// On the host: `launch` for norms of order p, whose kind is a constant.
template <class Launch>
int with_power(double p, Launch launch) noexcept {
  using enum PowerKind;
  if (p == 2) return launch(Power<kSquares>());
  if (p == 1) return launch(Power<kMagnitudes>());
  if (p == 0 || p == kInfinite) return launch(Power<kNone>());
  if (p == -kInfinite) return launch(Power<kSmallest>());
  return launch(Power<kPowers>());
}

/// What a thread holds of one gradient.
struct Found {
  double power_sum = 0, max_abs = 0;
  std::int32_t nan_count = 0, inf_count = 0;
};

template <PowerKind P, class Sums = ClipSums>
__device__ Sums neutral() {
  Sums sums;
  if constexpr (P == PowerKind::kSmallest) sums.power_sum = kInfinite;
  return sums;
}

template <PowerKind P, class Sums>
__device__ Sums merge(const Sums& left, const Sums& right) {
  Sums sums = left;
  if constexpr (P == PowerKind::kSmallest) {
    sums.power_sum = fmin(left.power_sum, right.power_sum);
  } else {
    sums.power_sum += right.power_sum;
  }
  sums.max_abs = fmax(left.max_abs, right.max_abs);
  sums.nan_count += right.nan_count;
  sums.inf_count += right.inf_count;
  if constexpr (std::is_same_v<Sums, ClipSums>) {
    sums.is_present += right.is_present;
    if (right.first_bad < sums.first_bad) sums.first_bad = right.first_bad;
  }
  return sums;
}

/// Of the warp, on its first lane. Every lane takes part.
template <PowerKind P, class Sums>
__device__ Sums merge_warp(Sums sums) {
  for (int distance = 1; distance < kWarp; distance *= 2) {
    sums = merge<P>(sums, from_lane(sums, distance));
  }
  return sums;
}

/// Of the block, on its first thread, from those of its warps. Every thread takes part.
template <PowerKind P, class Sums>
__device__ Sums merge_warps(Sums sums) {
  __shared__ double words[kWarps][sizeof(Sums) / 8];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // of an earlier call nobody reads any more
  if (threadIdx.x % kWarp == 0) memcpy(words[warp], &sums, sizeof sums);
  __syncthreads();
  if (warp != 0) return sums;
  memcpy(&sums, words[threadIdx.x % kWarps], sizeof sums);
  for (int distance = 1; distance < kWarps; distance *= 2) {
    sums = merge<P>(sums, from_lane(sums, distance));
  }
  return sums;
}

__device__ inline ClipSums sums_of(const Found& found) {
  return {found.power_sum, found.max_abs, found.nan_count, found.inf_count};
}

__device__ inline ClipSums as_row(ClipSums sums, const ClipRow& row) {
  sums.is_present = row.elements > 0 ? 1 : 0;
  sums.module = row.module;
  return sums;
}

/// What other blocks wrote.
__device__ inline ClipSums read_sums(const ClipSums* from) {
  struct alignas(16) Words {
    std::uint64_t pair[2];
  } words[sizeof(ClipSums) / 16];
  for (std::size_t i = 0; i < sizeof words / 16; ++i) {
    words[i] = read_written_vector<Words>(reinterpret_cast<const Words*>(from) + i);
  }
  ClipSums sums;
  memcpy(&sums, words, sizeof sums);
  return sums;
}

/// The `number` parts of a row, of the block on its first thread. Every thread takes part.
template <PowerKind P>
__device__ ClipSums merge_parts(const ClipSums* parts, int number) {
  ClipSums sums = neutral<P>();
#pragma unroll 4
  for (int part = static_cast<int>(threadIdx.x); part < number; part += kThreads) {
    sums = merge<P>(sums, read_sums(parts + part));
  }
  return merge_warps<P>(merge_warp<P>(sums));
}

/// Of a gradient, or of a group of them.
template <PowerKind P>
__device__ double norm_of(const ClipSums& sums, const ClipRule& rule) {
  if (sums.is_present == 0) return 0;
  if (rule.p == 0) return sums.is_present;
  double norm = sums.power_sum;
  if constexpr (P == PowerKind::kNone) norm = sums.max_abs;
  if constexpr (P == PowerKind::kNone || P == PowerKind::kSmallest) {
    if (sums.nan_count > 0) norm = NAN;
  }
  if constexpr (P == PowerKind::kSquares) norm = sqrt(norm);
  if constexpr (P == PowerKind::kPowers) norm = pow(norm, 1 / rule.p);
  return rule.inverse_scale == nullptr ? norm
                                       : norm * fabs(static_cast<double>(*rule.inverse_scale));
}

/// By one thread: all that is told of a gradient.
template <PowerKind P>
__device__ void tell_row(const ClipSums& sums, std::int64_t row, const ClipRule& rule,
                         const ClipLayout& layout, const ClipBuffers& buffers) {
  buffers.rows[row] = sums;
  if (buffers.result == nullptr) return;
  const double scale = rule.inverse_scale == nullptr ? 1.0 : fabs(double{*rule.inverse_scale});
  auto* const counts = reinterpret_cast<long long*>(buffers.result);
  buffers.result[ClipLayout::kNorms + row] = norm_of<P>(sums, rule);
  buffers.result[layout.max_abs() + row] = sums.max_abs * scale;
  counts[layout.nan_counts() + row] = sums.nan_count;
  counts[layout.inf_counts() + row] = sums.inf_count;
}

__device__ inline bool is_bad(const ClipSums& sums) { return sums.nan_count + sums.inf_count > 0; }

template <PowerKind P>
__device__ void add_row(const ClipSums& sums, std::int64_t row, const ClipRule& rule,
                        ClipSums& group) {
  const bool bad = is_bad(sums);
  if (bad && row < group.first_bad) group.first_bad = static_cast<std::int32_t>(row);
  if (sums.is_present != 0 && !(rule.zeroes_bad && bad)) group = merge<P>(group, sums);
}

/// By the first thread, with the sums of all rows.
template <PowerKind P>
__device__ void judge(const ClipSums& all, const ClipRule& rule, const ClipBuffers& buffers) {
  const double total = norm_of<P>(all, rule);
  const double unscale = rule.inverse_scale == nullptr ? 1.0 : *rule.inverse_scale;
  const bool is_finite = fabs(total) < kInfinite;
  const bool has_bad = all.first_bad != kNoRow;
  const std::int64_t first_bad = has_bad ? all.first_bad : -1;
  double coefficient = 1;
  const bool is_spared = (rule.unscales && has_bad) || (rule.spares_bad && (has_bad || !is_finite));
  if (!is_spared && rule.max_norm != kInfinite) {
    coefficient = rule.max_norm / (total + rule.eps);
    if (coefficient > 1) coefficient = 1;  // a NaN stays
  }
  buffers.result[ClipLayout::kTotal] = total;
  buffers.result[ClipLayout::kCoefficient] = coefficient;
  buffers.result[ClipLayout::kFactor] = coefficient * unscale;
  reinterpret_cast<long long*>(buffers.result)[ClipLayout::kFirstBad] = first_bad;
  auto* const flags = reinterpret_cast<float*>(buffers.result + ClipLayout::kFlags);
  flags[0] = has_bad || (rule.spares_bad && !is_finite) ? 1.0F : 0.0F;
  flags[1] = static_cast<float>(1 / (coefficient * unscale));
  if (buffers.notice == nullptr || is_finite) return;
  const ClipSums bad = has_bad ? read_sums(buffers.rows + first_bad) : ClipSums();
  buffers.notice->total = total;
  buffers.notice->first_bad = first_bad;
  buffers.notice->nan_count = bad.nan_count;
  buffers.notice->inf_count = bad.inf_count;
  __threadfence_system();
  buffers.notice->is_there = 1;
}

template <PowerKind P>
__device__ void finish_modules(const ClipRule& rule, const ClipLayout& layout,
                               const ClipBuffers& buffers) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t module = threadIdx.x / kWarp; module < layout.modules; module += kWarps) {
    ClipSums sums = neutral<P>();
    for (std::int64_t row = lane; row < layout.rows; row += kWarp) {
      const ClipSums of_row = read_sums(buffers.rows + row);
      if (of_row.module == module) add_row<P>(of_row, row, rule, sums);
    }
    sums = merge_warp<P>(sums);
    if (lane == 0) buffers.result[layout.module_norms() + module] = norm_of<P>(sums, rule);
  }
}

/// By all threads of the last block. `ends`: what it reads, `number` groups of rows; null: the
/// rows.
template <PowerKind P>
__device__ void finish(const ClipRule& rule, const ClipLayout& layout, const ClipBuffers& buffers,
                       const ClipSums* ends, std::int64_t number) {
  ClipSums all = neutral<P>();
  if (ends != nullptr) {
#pragma unroll 4
    for (std::int64_t i = threadIdx.x; i < number; i += kThreads) {
      all = merge<P>(all, read_sums(ends + i));
    }
  } else {
#pragma unroll 4
    for (std::int64_t row = threadIdx.x; row < layout.rows; row += kThreads) {
      add_row<P>(read_sums(buffers.rows + row), row, rule, all);
    }
  }
  all = merge_warps<P>(merge_warp<P>(all));
  if (threadIdx.x == 0) judge<P>(all, rule, buffers);
  finish_modules<P>(rule, layout, buffers);
}

/// Of the rows that a block has told, on its first thread. Every thread takes part.
template <PowerKind P>
__device__ ClipSums end_of(const ClipSums& sums, std::int64_t row, bool tells,
                           const ClipRule& rule) {
  ClipSums end = neutral<P>();
  if (tells) add_row<P>(sums, row, rule, end);
  return merge_warps<P>(end);
}

}  // namespace ddpscope::cuda
