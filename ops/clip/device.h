#pragma once

#include <ddpscope/ops/clip_grad.h>

#include "ops/clip/shards.h"
#include "ops/clip/table.h"
#include "ops/device/place.h"

/// Clipping where the gradients are: launches are queued and nothing waits, unless it is said.
namespace ddpscope::clip {

/// Rows that lie in memory of the device, where they are too many for the arguments of one launch.
struct Listing {
  /// Gives each row its first block.
  Listing(std::vector<cuda::ClipRow>& rows, const device::Place& place);

  cuda::ClipListing listing;
  at::Tensor memory;
};

/// The norms and sums of one list on a device.
class DeviceMeasure {
 public:
  /// `module_of` is as in ClipOptions. @throws c10::Error, with every gradient as it was.
  DeviceMeasure(const Table& table, const device::Place& place,
                const std::vector<std::int32_t>& module_of, const cuda::ClipRule& rule,
                cuda::ClipNotice* notice = nullptr);

  /// Views of one piece of memory of the device.
  ClipResult result() const;
  at::Tensor nan_counts() const;
  at::Tensor inf_counts() const;
  /// Waits.
  double total() const;

  /// Makes the result that of the shards of all ranks. `inverse_scale` is that of the rule.
  void combine(const ShardCall& shards, const cuda::ClipRule& rule,
               const at::Tensor& inverse_scale) const;

  /// Every gradient times the factor that was found.
  void scale(bool zeroes_bad) const;
  /// Every gradient times `factor`.
  void scale_by(double factor) const;
  void clamp(double limit) const;

 private:
  void write(cuda::ClipWriteCall call) const;
  at::Tensor item(std::int64_t index) const;

  const Table& table_;
  const device::Place& place_;
  cuda::ClipLayout layout_;
  std::vector<cuda::ClipRow> rows_;
  Listing listing_;
  at::Tensor sums_;    // Byte: ClipSums of each row, then parts
  at::Tensor result_;  // Double: ClipLayout
};

/// `clip_grad_norm_` of a list on a device. kThrow waits, nothing else does.
ClipResult clip_on_device(const Table& table, double max_norm, const ClipOptions& options,
                          const device::Place& place, const ShardCall& shards = {});

ValueClipResult clamp_on_device(const Table& table, double limit, const device::Place& place);

/// Once: what a norm of this thread that was not finite left behind, "" if there was none.
std::string take_late_notice();

}  // namespace ddpscope::clip
