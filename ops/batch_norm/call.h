#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ddpscope/ops/communicator.h>

#include <cstdint>
#include <string>

namespace ddpscope::batch_norm {

enum class Phase : std::uint8_t { kForward, kBackward, kSecondBackward };

/// What one call of a layer and its derivatives share beside tensors.
struct Call : torch::CustomClassHolder {
  /// Double, (2, C): means and 1 / sqrt(variance + eps). Neither is part of the graph.
  at::Tensor statistics;
  CommunicatorPtr group;    ///< null where nothing is exchanged
  bool gathers = false;     ///< else the backend sums
  std::string layer;        ///< as the user named it
  std::int64_t number = 0;  ///< of the calls of this layer over this group, from 1
  std::int64_t channels = 0;
  /// 1 / N of the values that the statistics cover; 0 where they are constants.
  double inverse_count = 0;
  /// On a device: what ranks exchanged, until `statistics` are made of it; Double, in rows of ranks
  /// if `gathers`. And the same 1 / N, Double, [].
  at::Tensor records;
  at::Tensor device_inverse_count;

  /// "layer bn1, call 3, backward"
  std::string place(Phase phase) const;
  /// 1 / N as a Double, [], on the device of the statistics.
  at::Tensor inverse() const;
};
using CallPtr = c10::intrusive_ptr<Call>;

}  // namespace ddpscope::batch_norm
