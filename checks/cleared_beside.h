#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "model/tensor_info.h"

namespace ddpscope {

/// Between how many steps of an optimizer the `zero_grad()` of another one was called.
class ClearedBeside {
 public:
  void zero_grad(OptimizerId optimizer) { zeroed_[optimizer] = ++now_; }
  void step(OptimizerId optimizer) {
    std::int64_t& stepped = stepped_[optimizer];
    for (const auto& [other, zeroed] : zeroed_) {
      if (zeroed > stepped) ++steps_[{optimizer, other}];
    }
    stepped = ++now_;
  }
  /// Before each step, but for the first one.
  bool is_each_step(OptimizerId optimizer, OptimizerId other, std::int64_t steps) const {
    const auto counted = steps_.find({optimizer, other});
    return counted != steps_.end() && counted->second + 1 >= steps;
  }
  void clear() { *this = {}; }

 private:
  std::int64_t now_ = 0;
  std::map<OptimizerId, std::int64_t> zeroed_;
  std::map<OptimizerId, std::int64_t> stepped_;
  std::map<std::pair<OptimizerId, OptimizerId>, std::int64_t> steps_;
};

}  // namespace ddpscope
