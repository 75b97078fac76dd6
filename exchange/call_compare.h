#pragma once

#include <optional>

#include "exchange/call_groups.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// The first call that members of the group issued differently, of those that they still know.
std::optional<CallsDiffer> first_difference(const CallGroup& group);

}  // namespace ddpscope
