#pragma once

#include <cstdint>
#include <vector>

#include "model/value_event.h"

namespace ddpscope {

/// A device was asked for values of the backward that ends now. Comes before `BackwardEndEvent`;
/// what follows is judged once the values have come, as if they had been read here.
struct ValuesAwaitedEvent {
  Stamp at;
  std::uint64_t batch = 0;  ///< a number that no other one has
};

/// What the device told, a step later; all empty if it was lost.
struct DeviceValuesEvent {
  std::uint64_t batch = 0;
  std::vector<LossEvent> losses;
  std::vector<GradientValuesEvent> gradients;
  std::vector<NonfiniteGradientEvent> nonfinite;
};

}  // namespace ddpscope
