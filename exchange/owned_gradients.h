#pragma once

#include "exchange/digest_walk.h"
#include "exchange/step_comparison.h"

namespace ddpscope::reductions {

/// Of these steps the gradients that every rank brought and that the optimizers of some ranks alone
/// have, as where each rank steps a part of the parameters and sends it to the others: as if all
/// ranks stepped with what those do.
Steps owned_steps(const RingList& rings, const Steps& steps);

}  // namespace ddpscope::reductions
