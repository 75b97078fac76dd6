#include "plugin/norm_groups.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "ops/batch_norm/override.h"

namespace ddpscope {

void NormGroups::give(const CommunicatorPtr& group) {
  const std::lock_guard lock(mutex_);
  given_ = group;
}

void NormGroups::see(const c10d::Backend& backend) {
  const std::int64_t size = backend.getSize();
  const bool is_of_all = size > 1 && (world_size_ < 2 || size == world_size_);
  if (!is_of_all) return;
  // The program owns it and is inside one of its calls; one that nobody counts cannot be shared.
  auto* const object = const_cast<c10d::Backend*>(&backend);
  if (c10::raw::intrusive_ptr::use_count(object) == 0) return;
  const std::lock_guard lock(mutex_);
  CommunicatorPtr& seen = backend.getBackendName() == "nccl" ? seen_of_nccl_ : seen_;
  if (seen) return;
  seen =
      make_communicator(c10::intrusive_ptr<c10d::Backend>::unsafe_reclaim_from_nonowning(object));
}

CommunicatorPtr NormGroups::chosen(c10::DeviceType of_inputs) {
  const CommunicatorPtr by_program = batch_norm::chosen_communicator();
  const std::lock_guard lock(mutex_);
  if (given_) return given_;
  if (by_program) return by_program;
  return of_inputs == c10::kCUDA && seen_of_nccl_ ? seen_of_nccl_ : seen_;
}

void NormGroups::settle(const CommunicatorPtr& group) noexcept {
  CommunicatorPtr others[2];  // their ends may wait for threads of theirs
  const std::lock_guard lock(mutex_);
  if (seen_ != group) others[0].swap(seen_);
  if (seen_of_nccl_ != group) others[1].swap(seen_of_nccl_);
}

void NormGroups::clear() noexcept {
  settle(nullptr);
  CommunicatorPtr given;
  const std::lock_guard lock(mutex_);
  given.swap(given_);
}

}  // namespace ddpscope
