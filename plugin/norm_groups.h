#pragma once

#include <c10/core/DeviceType.h>
#include <ddpscope/ops/communicator.h>

#include <cstdint>
#include <mutex>

namespace c10d {
class Backend;
}

namespace ddpscope {

/// The group over which batch norms run: the one that was given, else the one of
/// `set_batch_norm_communicator`, else the first that was seen: for inputs on a GPU the first of
/// NCCL before others, for those on the CPU none of NCCL.
class NormGroups {
 public:
  explicit NormGroups(std::int64_t world_size) : world_size_(world_size) {}

  void give(const CommunicatorPtr& group);
  /// A backend that is being called. Kept if it is one of all ranks, and the first of its kind.
  void see(const c10d::Backend& backend);
  CommunicatorPtr chosen(c10::DeviceType of_inputs);
  /// What was seen and not chosen is let go.
  void settle(const CommunicatorPtr& group) noexcept;
  void clear() noexcept;

 private:
  const std::int64_t world_size_;
  std::mutex mutex_;
  CommunicatorPtr given_, seen_, seen_of_nccl_;
};

}  // namespace ddpscope
