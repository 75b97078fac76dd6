#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// What one rank tells of a surveyed step: pairs of a module and an operator, or of a module and
/// nothing more.
struct TrainedGraph {
  using Parts = std::set<std::pair<std::string, std::string>>;
  Parts operators;  ///< from parameters to the losses; without modules where there are too many
  Parts in_eval;    ///< layers that work in another way then
};

std::string encode(const TrainedGraph& graph);
TrainedGraph decode_graph(std::string_view bytes);

/// Fills in what some ranks alone make their losses with, in each step that was surveyed.
void compare_graphs(const RingList& rings, Cohort& cohort);

}  // namespace ddpscope
