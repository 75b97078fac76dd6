#pragma once

#include <vector>

#include "ops/clip/device_result.h"
#include "ops/clip/table.h"

/// Clipping where the gradients are: launches are queued and nothing waits, unless it is said.
namespace ddpscope::clip {

/// Rows that lie in memory of the device, where they are too many for the arguments of one launch.
struct Listing {
  /// Gives each row its first block.
  Listing(std::vector<cuda::ClipRow>& rows, const device::Place& place);

  cuda::ClipListing listing;
  at::Tensor memory;
};

/// The norms and sums of the gradients of one device.
class DeviceMeasure {
 public:
  /// `module_of` is as in ClipOptions. Table and place outlive this.
  /// @throws c10::Error, with every gradient as it was.
  DeviceMeasure(const Table& table, const device::Place& place,
                const std::vector<std::int32_t>& module_of, const cuda::ClipRule& rule,
                cuda::ClipNotice* notice = nullptr);

  const DeviceResult& result() const { return result_; }
  /// Byte: ClipSums of each row.
  at::Tensor sums() const;

  /// Every gradient times the factor of the result.
  void scale(bool zeroes_bad) const;
  void clamp(double limit) const;

 private:
  void write(cuda::ClipWriteCall call) const;

  const Table& table_;
  const device::Place& place_;
  DeviceResult result_;
  std::vector<cuda::ClipRow> rows_;
  Listing listing_;
  at::Tensor sums_;  // Byte: ClipSums of each row, then parts
};

}  // namespace ddpscope::clip
