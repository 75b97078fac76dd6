#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// `4 1` of the second of four shares.
std::string share_text(const SamplerShare& share);
/// None of a text that is no such one.
SamplerShare share_in(std::string_view text);
/// What a rank said last of it at that step.
SamplerShare share_at(const RingReader& ring, std::int64_t step);

/// Fills in the shares of the data that no rank asks for. Of ranks that ask for others in turn,
/// only once each asks for one again. `world_size`: of the run, whose rings are all there.
void compare_shares(const RingList& rings, bool live, std::int64_t world_size, Cohort& cohort);

}  // namespace ddpscope
