#pragma once

#include <cstdint>
#include <map>

#include "model/optimizer_event.h"

namespace ddpscope {

/// Whether threads step optimizers of their own side by side: which of them is first is another
/// matter on each rank, so that steps of the same number are not the same.
class ThreadTurns {
 public:
  void on(const OptimizerStepEvent& event) {
    const auto [known, is_new] = threads_.try_emplace(event.optimizer, event.at.thread);
    const bool is_kept = known->second == event.at.thread;  // each by one thread
    if (!is_kept) known->second = kSeveral;
    take_turns_ |= is_kept && !is_new && last_ != 0 && last_ != event.optimizer &&
                   threads_[last_] != kSeveral && threads_[last_] != event.at.thread;
    last_ = event.optimizer;
  }
  bool take_turns() const { return take_turns_; }

 private:
  static constexpr std::uint64_t kSeveral = 0;
  std::map<OptimizerId, std::uint64_t> threads_;
  OptimizerId last_ = 0;
  bool take_turns_ = false;
};

}  // namespace ddpscope
