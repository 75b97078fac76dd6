#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddpscope {

/// `rank 3`, `ranks 0-3`, `ranks 0-3,7` of ranks in order.
std::string rank_words(const std::vector<std::int64_t>& ranks);
/// `0-3,7`.
std::string rank_ranges(const std::vector<std::int64_t>& ranks);

}  // namespace ddpscope
