#pragma once

#include "checks/ending_text.h"

namespace ddpscope {

/// Within it, which of two ranks ended first does not say which ended for the other.
inline constexpr std::int64_t kAtOnceNs = 1'000'000'000;

/// By time; null where none of them says when.
const RankEnding* earliest(const Endings& endings);

/// The rank that failed first; null where none of them says when.
///
/// A rank that could not write a note has no stamp, or its launcher's, which is late. It goes
/// before one that only reacted at that moment.
const RankEnding* first_failure(const Endings& failed);

}  // namespace ddpscope
