#include "model/rank_words.h"

namespace ddpscope {

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string rank_ranges(const std::vector<std::int64_t>& ranks) {
  std::string result;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!result.empty()) result += ",";
    result += std::to_string(ranks[i]);
    if (last > i) result += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return result;
}

std::string rank_words(const std::vector<std::int64_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_ranges(ranks);
}

}  // namespace ddpscope
