#pragma once

#include <string>

#include "checks/lagging_ranks.h"
#include "model/finding.h"

namespace ddpscope {

/// `since`: the step in which batches were skipped first, where they were.
std::string lag_words(const Lag& lag, std::int64_t since);

/// Of ranks that issued another call: why, what helps, and where both were issued.
void tell_other_call(const Lag& lag, Finding& finding);

}  // namespace ddpscope
