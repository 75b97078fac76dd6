#include "plugin/norm_groups.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "ops/batch_norm/override.h"

namespace ddpscope {

void NormGroups::give(const CommunicatorPtr& group) {
  const std::lock_guard lock(mutex_);
  given_ = group;
}

bool NormGroups::see(const c10d::Backend& backend) {
  const std::int64_t size = backend.getSize();
  const bool is_of_all = size > 1 && (world_size_ < 2 || size == world_size_);
  if (!is_of_all || backend.getBackendName() == "nccl") return false;
  // The program owns it and is inside one of its calls; one that nobody counts cannot be shared.
  auto* const object = const_cast<c10d::Backend*>(&backend);
  if (c10::raw::intrusive_ptr::use_count(object) == 0) return false;
  const std::lock_guard lock(mutex_);
  if (seen_) return false;
  seen_ =
      make_communicator(c10::intrusive_ptr<c10d::Backend>::unsafe_reclaim_from_nonowning(object));
  return true;
}

CommunicatorPtr NormGroups::chosen() {
  const CommunicatorPtr by_program = batch_norm::chosen_communicator();
  const std::lock_guard lock(mutex_);
  if (given_) return given_;
  return by_program ? by_program : seen_;
}

void NormGroups::clear() noexcept {
  CommunicatorPtr groups[2];  // their ends may wait for threads of theirs
  const std::lock_guard lock(mutex_);
  groups[0].swap(given_);
  groups[1].swap(seen_);
}

}  // namespace ddpscope
