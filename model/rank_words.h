#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddpscope {

/// `1 parameter`, `2 parameters`.
std::string counted(std::int64_t count, std::string_view noun);
/// `rank 3`, `ranks 0-3`, `ranks 0-3,7` of ranks in order.
std::string rank_words(const std::vector<std::int64_t>& ranks);
/// `0-3,7`.
std::string rank_ranges(const std::vector<std::int64_t>& ranks);

/// Of ranks that left records of another run than this one.
inline constexpr char kOtherRunWhy[] =
    "left records of another run there: their processes have other parents, as of a wrapper for "
    "each rank, and no launcher names the run; or they are of an earlier run";
inline constexpr char kOneRunFix[] = "set DDPSCOPE_RUN_ID to one word for all ranks";

}  // namespace ddpscope
