#pragma once

#include "ops/clip/measure.h"
#include "ops/clip/result.h"
#include "ops/clip/table.h"

namespace ddpscope::clip {

/// Multiplies every gradient by the factor of the verdict and zeroes the bad ones where it says so.
/// Writes no byte of a gradient that stays as it is.
void scale(const Table& table, const Measure& measure, const Verdict& verdict);

}  // namespace ddpscope::clip
