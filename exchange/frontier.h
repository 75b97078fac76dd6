#pragma once

#include <map>
#include <optional>

#include "exchange/call_groups.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

/// Until when ranks are known to have lived, in Unix time.
struct RankTimes {
  std::int64_t end_ns = 0;                        ///< the latest that any rank noted, or now
  std::map<std::int64_t, std::int64_t> ended_ns;  ///< of those that ended before
};

RankStand stand_of(const GroupMember& member, std::uint64_t group);

/// Where members of the group stand, if some wait in a call that others have not issued.
std::optional<Frontier> frontier_of(const CallGroup& group, const RankTimes& times);

}  // namespace ddpscope
