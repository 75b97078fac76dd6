#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "model/backward_event.h"

namespace ddpscope {

/// Parameters that no optimizer holds and that the program's own code updates: whether it clears
/// their gradients in between. An update is a write between two gradients.
class OwnUpdates {
 public:
  /// Of a cycle, so far.
  struct Closed {
    std::vector<TensorId> stale;     ///< updated 3 times or more since they were cleared
    std::vector<TensorId> cleared;   ///< others that got a gradient, and were
    bool all = false;                ///< no other got a gradient
    std::int64_t accumulations = 0;  ///< the most since a stale one was cleared
    std::int64_t updates = 0;        ///< as many of it
  };

  void add(const GradientEvent& event);
  /// `is_judged`: whether it is still such a parameter; others are forgotten.
  Closed close(std::int64_t cycle, const std::function<bool(TensorId)>& is_judged);
  void clear() { parameters_.clear(); }

 private:
  struct Parameter {
    std::int64_t accumulations = 0;  ///< since it was cleared, as `updates`
    std::int64_t updates = 0;
    std::int64_t untold = 0;  ///< gradients that were 0 before, as one that nobody cleared may be
    bool cleared = false;
    std::int64_t cycle = 0;  ///< of the last gradient
  };

  std::unordered_map<TensorId, Parameter> parameters_;
};

}  // namespace ddpscope
