#pragma once

#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/clip/device.h"
#include "ops/clip/measure.h"

/// Lists of which gradients lie on a CUDA device: on one, on several, or some on the CPU.
namespace ddpscope::clip {

/// The gradients of a list that lie on one device.
struct Portion {
  const Table& table;
  std::optional<device::Place> place;  ///< none: on the CPU
};
/// Of `tables`, which outlive it. @throws c10::Error where a device cannot be computed on, or where
/// several are to become part of a graph.
std::vector<Portion> portions_of(const std::vector<Table>& tables);
/// The first that is not of the CPU, whose device has the results.
const device::Place& main_place(std::span<const Portion> portions);

/// The norms and sums of all portions.
class DevicesMeasure {
 public:
  /// `module_of` is as in ClipOptions. The portions outlive this.
  DevicesMeasure(std::span<const Portion> portions, const std::vector<std::int32_t>& module_of,
                 const cuda::ClipRule& rule, cuda::ClipNotice* notice = nullptr);

  const DeviceResult& result() const { return joined_ ? *joined_ : of_devices_.front().result(); }
  bool has_elements() const;

  /// Every gradient times the factor of the result. Waits for it where some are on the CPU.
  void scale(bool zeroes_bad) const;
  void scale_by(double factor) const;

 private:
  void join(const std::vector<std::int32_t>& module_of, const cuda::ClipRule& rule,
            cuda::ClipNotice* notice);
  at::Tensor gather(const std::vector<std::int32_t>& module_of) const;

  std::span<const Portion> portions_;
  std::list<DeviceMeasure> of_devices_;
  const Table* cpu_table_ = nullptr;
  std::optional<Measure> of_cpu_;
  // Of several portions.
  std::optional<DeviceResult> joined_;
  at::Tensor rows_;  // Byte: ClipSums of each row
};

/// `clip_grad_norm_` where a portion is not of the CPU. kThrow and what lies on the CPU beside it
/// wait, nothing else does.
ClipResult clip_on_devices(std::span<const Portion> portions, double max_norm,
                           const ClipOptions& options, const ShardCall& shards = {});

/// `clip_grad_value_` likewise.
ValueClipResult clamp_on_devices(std::span<const Portion> portions, double limit);

/// Once: what a norm of this thread that was not finite left behind, "" if there was none.
std::string take_late_notice();

}  // namespace ddpscope::clip
