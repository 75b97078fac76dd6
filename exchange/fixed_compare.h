#pragma once

#include <optional>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Of a model that no gradient reaches and that every rank runs before each backward before which
/// it was read, as the target of a loss: its parameters where they, equal at first, differ first.
/// Nothing where no such model does.
std::optional<ValuesDiffer> compare_fixed(const RingList& rings);

}  // namespace ddpscope
