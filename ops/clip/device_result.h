#pragma once

#include <ddpscope/ops/clip_grad.h>

#include "ops/clip/shards.h"
#include "ops/device/place.h"

namespace ddpscope::clip {

/// What is known of a list on a device: views of one piece of its memory.
class DeviceResult {
 public:
  /// Memory for it. `place` outlives this.
  DeviceResult(const device::Place& place, const cuda::ClipLayout& layout);

  const device::Place& place() const { return place_; }
  const cuda::ClipLayout& layout() const { return layout_; }
  double* data() const { return items_.mutable_data_ptr<double>(); }

  ClipResult views() const;
  at::Tensor nan_counts() const;
  at::Tensor inf_counts() const;
  /// What every gradient is to be multiplied by.
  at::Tensor factor() const { return item(cuda::ClipLayout::kFactor); }
  /// Waits.
  double total() const;
  /// Waits. @throws c10::Error if the norm is not finite.
  void throw_if_refused() const;

  /// Makes it that of the shards of all ranks. `inverse_scale` is that of the rule; `is_present`
  /// says whether this rank lists any element.
  void combine(const ShardCall& shards, const cuda::ClipRule& rule, const at::Tensor& inverse_scale,
               bool is_present) const;

 private:
  at::Tensor item(std::int64_t index) const { return items_.select(0, index); }

  const device::Place& place_;
  cuda::ClipLayout layout_;
  at::Tensor items_;  // Double: ClipLayout
};

}  // namespace ddpscope::clip
