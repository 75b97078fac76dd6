#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "model/optimizer_event.h"

namespace ddpscope {

/// Whether threads step optimizers of their own side by side: which of them is first is another
/// matter on each rank, so that steps of the same number are not the same.
class ThreadTurns {
 public:
  /// Of steps that hooks watch.
  void on(const OptimizerStepEvent& event) {
    const auto [known, is_new] = threads_.try_emplace(event.optimizer, event.at.thread);
    is_shared_ |= known->second != event.at.thread;
  }
  void step_ended(std::uint64_t thread) {
    if (thread == last_) return;
    came_back_ |= before_.contains(thread);
    before_.insert(thread);
    last_ = thread;
  }
  /// One optimizer that several threads step, as those of a pool, is stepped in order.
  bool take_turns() const { return came_back_ && !is_shared_; }

 private:
  std::map<OptimizerId, std::uint64_t> threads_;
  std::set<std::uint64_t> before_;
  std::uint64_t last_ = 0;
  bool came_back_ = false;
  bool is_shared_ = false;
};

}  // namespace ddpscope
