#pragma once

#include <optional>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Parameters that ranks which step nothing themselves compute gradients with and are never sent,
/// while all others have values of the ranks that train them. Nothing where there are none.
std::optional<ValuesDiffer> compare_sent_weights(const RingList& rings);

}  // namespace ddpscope
