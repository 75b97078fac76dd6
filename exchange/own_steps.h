#pragma once

#include <cstdint>
#include <optional>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// Steps that a rank made alone while it trained with others.
struct OwnSteps {
  std::int64_t rank = 0;
  std::int64_t step = 0;  ///< the first
};

/// The first that left the parameters of the rank as those of the others: it trained and called
/// nobody in them, and began its next step with the parameters of the others and ended it with as
/// many calls as they had made. Where parameters are not read, an optimizer that no other rank has
/// made its first step in them.
std::optional<OwnSteps> first_own_steps(const RingList& rings);

}  // namespace ddpscope
