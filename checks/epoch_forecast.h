#pragma once

#include "model/rank_compare_event.h"

namespace ddpscope {

/// Of ranks that will have no more batches while others still do.
Finding epoch_forecast(const EpochsDiffer& epochs);

/// Whether it tells what is still to come: neither cause nor effect of what came.
bool is_forecast(const Finding& finding);

}  // namespace ddpscope
