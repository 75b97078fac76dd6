#pragma once

#include <cstdint>
#include <vector>

#include "exchange/rank_ring.h"

namespace ddpscope {

/// The last step that this rank has ended and told of; 0 before that.
std::int64_t last_ended_step(const RingReader& ring);
/// The last step that each of these ranks has ended. What ranks said of
/// steps up to it changes no more, so comparing it is comparing what a merge would have, had they
/// all ended there.
std::int64_t last_common_step(const std::vector<RingReader>& rings);

/// The first step after this one at which ranks are compared: 1, 2, 4, 8, and each `every`.
std::int64_t next_compared_step(std::int64_t step, std::int64_t every);

/// Shows of a ring, which has not been shown in part yet, only what belongs to these steps. Names,
/// lists and what tells of changes is there from before them as well.
void show_steps(RingReader& ring, std::int64_t first, std::int64_t last);

}  // namespace ddpscope
