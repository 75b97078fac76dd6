#pragma once

#include <ddpscope/ops/op_facts.h>

#include "ops/clip/measure.h"

namespace ddpscope::clip {

/// Tells the observer, where there is one, of a clip of the gradients of `table`. `facts` are
/// completed by what the list and the measure know.
void tell_observer(const Table& table, const Measure& measure, ClipFacts facts);

}  // namespace ddpscope::clip
