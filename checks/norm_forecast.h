#pragma once

#include <optional>

#include "checks/norm_layers.h"

namespace ddpscope {

/// Forecasts, from what a data loader has left, a last batch of one row that a layer will refuse.
class NormForecast {
 public:
  void saw(const BatchRequestEvent& event) { request_ = join(request_, event); }
  /// Told once, of the first layer that normalises whole batches of the loader.
  std::optional<Finding> saw(const NormLayer& layer, const Stamp& at, const RunState& state);

 private:
  BatchRequestEvent request_;
  bool told_ = false;
};

}  // namespace ddpscope
