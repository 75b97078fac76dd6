#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/rank_compare_event.h"

namespace ddpscope {

/// The smaller side first; of two of one size the one without the lowest rank.
inline bool is_minority(const RankList& a, const RankList& b) {
  return std::tuple(a.size(), -a.front()) < std::tuple(b.size(), -b.front());
}

/// Of values and the ranks that say them, none of which is empty.
inline std::vector<RankSide> as_sides(const std::map<std::string, RankList>& ranks_of) {
  std::vector<RankSide> sides;
  for (const auto& [value, ranks] : ranks_of) {
    sides.push_back({value, ranks});
    std::ranges::sort(sides.back().ranks);
  }
  std::ranges::sort(
      sides, [](const RankSide& a, const RankSide& b) { return is_minority(a.ranks, b.ranks); });
  return sides;
}

}  // namespace ddpscope
