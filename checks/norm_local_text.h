#pragma once

#include <vector>

#include "checks/norm_layers.h"

namespace ddpscope {

/// Whether `sync_batch_norm` is on, and left the layer to its rank.
bool is_left_out(const NormLayer& layer);

/// That these layers of one model normalise over the batch of their rank.
Finding about_local_norms(const std::vector<NormLayer>& layers, const RunState& state);

}  // namespace ddpscope
