#include "report/leftover_suppressions.h"

#include <map>
#include <string_view>
#include <utility>

namespace ddpscope {

std::vector<SuppressionRecord> leftover_suppressions(const std::vector<RankFile>& files,
                                                     bool all_ended) {
  // Ranks may read the same file from different places.
  std::map<std::pair<std::int64_t, std::string_view>, SuppressionRecord> lines;
  for (const auto& file : files) {
    for (const auto& record : file.suppressions) {
      const auto [known, is_new] = lines.try_emplace({record.line, record.text}, record);
      if (is_new || record.state == SuppressionState::kUnused) continue;
      if (known->second.state != SuppressionState::kUsed) known->second.state = record.state;
    }
  }
  std::vector<SuppressionRecord> leftovers;
  for (auto& [place, record] : lines) {
    const bool is_left = record.state == SuppressionState::kExpired ||
                         (record.state == SuppressionState::kUnused && all_ended);
    if (is_left) leftovers.push_back(std::move(record));
  }
  return leftovers;
}

}  // namespace ddpscope
