#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/device/scalar_kind.h"

struct CUstream_st;  // cudaStream_t points to it

/// Synchronized batch norm on a device: what the kernels are given. Plain data; pointers are of
/// device memory unless it is said. C channels, n values per channel of this rank.
namespace ddpscope::cuda {

enum class NormLayout : std::uint8_t {
  kPlanes,  ///< as NCHW
  kRows,    ///< as channels-last, and 2-D input
};

/// How x, and likewise y, dy and dx, lie in memory, without gaps.
struct NormView {
  ScalarKind kind = ScalarKind::kFloat;
  NormLayout layout = NormLayout::kPlanes;
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t plane = 1;  // values per sample and channel

  constexpr std::int64_t values() const { return batch * plane; }  // per channel
};

/// The records of ranks, Double, as they are on the CPU.
///   forward, summed:   n, sum x (C), sum x^2 (C), id, id^2
///   forward, gathered: n, mean (C), sum (x - mean)^2 (C), id; a row per rank
///   backward:          sum dy (C), sum dy (x - mean) (C), id, and id^2 if summed
struct RecordForm {
  bool is_summed = false;  // else gathered, also of a rank alone
  double id = 0;           // of layer, call and phase; the same on every rank, or it is told
  int ranks = 1;
};
constexpr std::int64_t forward_record_items(std::int64_t channels, bool is_summed) {
  return 2 * channels + (is_summed ? 3 : 2);
}
constexpr std::int64_t backward_record_items(std::int64_t channels, bool is_summed) {
  return 2 * channels + (is_summed ? 2 : 1);
}
/// What a forward leaves for its backward: mean (C), 1 / sqrt(variance + eps) (C), 1 / n of all.
constexpr std::int64_t statistics_items(std::int64_t channels) { return 2 * channels + 1; }

/// A number per channel, in memory of a kind of its own; null: there is none.
struct PerChannel {
  void* data = nullptr;
  ScalarKind kind = ScalarKind::kFloat;
};

/// For partial sums between blocks.
struct Workspace {
  double* partials = nullptr;   // `norm_workspace_items`
  unsigned* tickets = nullptr;  // `norm_tickets`, zero before and after
};
/// Of a pass over any tensor of this shape.
std::int64_t norm_workspace_items(const NormView& view) noexcept;
std::int64_t norm_tickets(const NormView& view) noexcept;

/// Set by the device where ids differ, in memory of the host that both see.
struct MixedUp {
  volatile std::int64_t place = 0;  // what the caller called it, not 0
};

/// x of this rank to its record.
struct StatsCall {
  NormView view;
  const void* x = nullptr;
  RecordForm form;
  double* record = nullptr;
  Workspace workspace;
};

/// y = (x - mean) / sqrt(variance + eps) * weight + bias, from the records of all ranks.
struct NormalizeCall {
  NormView view;
  const void* x = nullptr;
  void* y = nullptr;
  PerChannel weight, bias;
  RecordForm form;
  const double* records = nullptr;  // null: `statistics` hold what counts
  double* statistics = nullptr;     // written where there are records
  double eps = 0;
  PerChannel running_mean, running_variance;  // moved where given
  std::int64_t* counter = nullptr;            // likewise
  double momentum = 0;                        // NaN: 1 / counter
  unsigned* tickets = nullptr;                // one
  MixedUp* mixed_up = nullptr;                // may be null
  std::int64_t place = 0;
};

/// x and dy of this rank to its record, and to the gradients of weight and bias of this rank.
struct ReduceCall {
  NormView view;
  const void* x = nullptr;
  const void* dy = nullptr;
  const double* statistics = nullptr;
  RecordForm form;
  double* record = nullptr;
  double* own = nullptr;  // (2, C): sums of dy and of dy (x - mean)
  PerChannel weight_gradient, bias_gradient;
  Workspace workspace;
};

/// dx = weight r (dy - S1 / n - (x - mean) r^2 S2 / n), with r = 1 / sqrt(variance + eps).
struct GradInputCall {
  NormView view;
  const void* x = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  PerChannel weight;
  const double* statistics = nullptr;
  RecordForm form;
  const double* records = nullptr;
  double* total = nullptr;  // (2, C): S1 and S2 of all ranks
  MixedUp* mixed_up = nullptr;
  std::int64_t place = 0;
};

/// One launch each, of which the code is returned, 0 if it was queued; nothing waits.
int launch_stats(const StatsCall& call, CUstream_st* stream) noexcept;
int launch_normalize(const NormalizeCall& call, CUstream_st* stream) noexcept;
int launch_reduce(const ReduceCall& call, CUstream_st* stream) noexcept;
int launch_grad_input(const GradInputCall& call, CUstream_st* stream) noexcept;

}  // namespace ddpscope::cuda
