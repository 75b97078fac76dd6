#pragma once

#include "model/finding.h"

namespace ddpscope {

/// The rank that failed first waited in that call, or issued the one that differed; or all were
/// ended together because they hung.
bool is_why_a_rank_failed(const Finding& cause, const Finding& effect);
/// The rank that failed first had passed a list to its backend, which threw.
bool is_refused_list(const Finding& cause, const Finding& effect);
/// The rank that nobody sees again had failed.
bool is_why_a_rank_is_gone(const Finding& cause, const Finding& effect);
bool is_why_a_rank_lags(const Finding& cause, const Finding& effect);

}  // namespace ddpscope
