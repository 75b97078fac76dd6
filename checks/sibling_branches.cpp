#include "checks/sibling_branches.h"

#include <algorithm>
#include <vector>

#include "checks/finding_text.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// One for each number in the path, which is left out of it.
std::vector<std::string> kinds_of(const TensorState& tensor) {
  const Registration& at = tensor.registrations.front();
  const std::string path = tensor_path(tensor);
  const std::string rest = "/" + shape_text(tensor.info.shape) + "/" + std::to_string(at.model);
  std::vector<std::string> kinds;
  for (auto begin = path.begin(); begin != path.end();) {
    begin = std::find_if(begin, path.end(), is_digit);
    if (begin == path.end()) break;
    const auto end = std::find_if_not(begin, path.end(), is_digit);
    kinds.push_back(std::string(path.begin(), begin) + "#" + std::string(end, path.end()) + rest);
    begin = end;
  }
  return kinds;
}
}  // namespace

SiblingBranches::SiblingBranches(const std::unordered_map<TensorId, GradientPresence>& presences,
                                 const RunState& state) {
  for (const auto& [id, presence] : presences) {
    const TensorState* tensor = state.tensor(id);
    const std::int64_t distance = presence.usual_distance();
    if (distance == 0 || tensor == nullptr || tensor->registrations.empty()) continue;
    for (const std::string& kind : kinds_of(*tensor)) {
      std::int64_t& largest = distances_[kind];
      largest = std::max(largest, distance);
    }
  }
}

bool SiblingBranches::may_come(const TensorState& tensor, std::int64_t cycles) const {
  return std::ranges::any_of(kinds_of(tensor), [&](const std::string& kind) {
    const auto found = distances_.find(kind);
    return found != distances_.end() && cycles < GradientPresence::kTimesForFirst * found->second;
  });
}

}  // namespace ddpscope
