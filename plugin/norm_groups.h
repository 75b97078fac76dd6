#pragma once

#include <ddpscope/ops/communicator.h>

#include <cstdint>
#include <mutex>

namespace c10d {
class Backend;
}

namespace ddpscope {

/// The group over which batch norms run: the one that was given, else the one of
/// `set_batch_norm_communicator`, else the first that was seen.
class NormGroups {
 public:
  explicit NormGroups(std::int64_t world_size) : world_size_(world_size) {}

  void give(const CommunicatorPtr& group);
  /// A backend that is being called. Kept if it is one of all ranks that reaches the CPU, and the
  /// first: then true.
  bool see(const c10d::Backend& backend);
  CommunicatorPtr chosen();
  void clear() noexcept;

 private:
  const std::int64_t world_size_;
  std::mutex mutex_;
  CommunicatorPtr given_, seen_;
};

}  // namespace ddpscope
