#pragma once

#include <string>
#include <vector>

#include "model/rank_compare_event.h"

namespace ddpscope {

/// Parameters that the same ranks lack.
struct Unused {
  RankList with;
  RankList without;
  std::string model;
  std::vector<std::string> paths;
  std::vector<RankSide> causes;  ///< each of one rank, by rank
};

/// Those of one model that the same ranks have, and lack, as this one.
Unused unused_like(const GradientSide& first, const GradientSetsDiffer& gradients);
/// `4 parameters got no gradient on rank 3 and did on ranks 0-2`
std::string unused_words(const Unused& unused);
/// `; ...` of the first ones that other ranks lack, as where each rank skips another head.
std::string words_of_others(const GradientSetsDiffer& gradients, const Unused& unused);
/// `trunk.head` of `trunk.head.weight` and `trunk.head.bias`.
std::string module_of_unused(const std::vector<std::string>& paths);

}  // namespace ddpscope
