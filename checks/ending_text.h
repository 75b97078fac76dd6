#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/finding.h"
#include "model/rank_ending.h"

namespace ddpscope {

using Endings = std::vector<const RankEnding*>;

/// `forward`
std::string_view phase_word(Phase phase);
/// SIGTERM, SIGHUP or SIGINT: somebody asked the rank to end.
bool was_told_to_stop(const RankEnding& ending);
/// Whether a rank ends so when another one is gone.
bool is_reaction(const RankEnding& ending);

/// Null where nothing is known of the rank.
const RankEnding* ending_of(std::int64_t rank, const RanksEndedEvent& run);
std::vector<std::int64_t> ranks_in(const Endings& endings);

/// A finding at the place where the rank stood.
Finding finding_at(const RankEnding& ending);
std::vector<Fact> ending_facts(const RankEnding& first, const Endings& others);

/// `rank 3 failed first, in forward: c10::Error "CUDA out of memory"`
std::string failure_words(const RankEnding& first);
/// `; ranks 0-2 were ended by the launcher 4.1 s later`, or nothing.
std::string cascade_words(const RankEnding& first, const Endings& others);
/// `ranks 0-3 were ended by SIGTERM within 2 ms`
std::string told_words(const Endings& ended);
/// `ranks 0-1 ended without a note; ...`
std::string silent_words(const Endings& ended);

std::string advice_for(const RankEnding& first);
Fix killed_fix();

}  // namespace ddpscope
