#pragma once

#include <unordered_set>

#include "model/backward_event.h"
#include "model/value_event.h"

namespace ddpscope {

/// Whether a gradient that is 0 was cleared: it was where something else than zeros had come since.
class ZeroedGradients {
 public:
  void add(const GradientValuesEvent& event) {
    if (event.zero_count < event.values.elements) nonzero_.insert(event.tensor);
  }
  /// `kReset` in place of `kZero` if so; `kZero` tells nothing.
  GradientBefore before(const GradientEvent& event) {
    if (event.before == GradientBefore::kKept) return event.before;
    const bool was_nonzero = nonzero_.erase(event.tensor) > 0;
    const bool is_cleared = event.before == GradientBefore::kZero && was_nonzero;
    return is_cleared ? GradientBefore::kReset : event.before;
  }
  void clear() { nonzero_.clear(); }

 private:
  std::unordered_set<TensorId> nonzero_;
};

}  // namespace ddpscope
