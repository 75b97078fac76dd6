#include "checks/sibling_branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "checks/finding_text.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// What it makes is of another size than what it takes: a second one does not take it.
bool is_no_link(const TensorInfo& tensor) {
  return tensor.shape.size() >= 2 && tensor.shape[0] != tensor.shape[1];
}

/// Of the layer with these weights, without the number at the end of its name; empty where it has
/// none, or where it may be part of a larger link of a chain.
std::string kind_of_layer(ModelId model, std::string_view path, const TensorInfo& weight) {
  if (!is_no_link(weight) || path.empty() || !is_digit(path.back())) return "";
  while (!path.empty() && is_digit(path.back())) path.remove_suffix(1);
  if (path.empty() || path.ends_with('.') || std::ranges::any_of(path, is_digit)) return "";
  return fmt::format("{}#/{}/{}", path, shape_text(weight.shape), model);
}

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

SiblingBranches::SiblingBranches(const GradientPresences& presences, const RunState& state) {
  for (const auto& [id, presence] : presences) {
    const TensorState* tensor = state.tensor(id);
    if (tensor == nullptr || tensor->registrations.empty()) continue;
    const Registration& at = tensor->registrations.front();
    if (presence.began() > 0) begins_.emplace(at.model, presence.began());
    if (!presence.never_came()) {
      heads_.insert(kind_of_layer(at.model, at.module_path, tensor->info));
    }
    const std::int64_t distance = presence.usual_distance();
    if (distance == 0) continue;
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

bool SiblingBranches::may_be_other_head(const TensorState& tensor, const RunState& state) const {
  const Registration& at = tensor.registrations.front();
  const ModelState* model = state.model_of(tensor);
  return model != nullptr && std::ranges::any_of(model->tensors, [&](const RegisteredTensor& one) {
           if (one.module_path != at.module_path) return false;
           const std::string kind = kind_of_layer(at.model, one.module_path, one.tensor);
           return !kind.empty() && heads_.contains(kind);
         });
}

bool SiblingBranches::took_turn(const TensorState& tensor, const GradientPresence& presence,
                                const RunState& state) const {
  if (!presence.may_come_back()) return false;
  const ModelId model = tensor.registrations.front().model;
  const std::int64_t went = state.now().cycle - presence.cycles_without();
  const auto next = begins_.lower_bound({model, went});
  return next != begins_.end() && next->first == model && next->second <= went + 2;
}

Branch SiblingBranches::kind_of(const TensorState& tensor, const GradientPresence& presence,
                                const RunState& state) const {
  const std::int64_t cycles = presence.cycles_without();
  if (!presence.never_came()) {
    return took_turn(tensor, presence, state) ? Branch::kMayCome : Branch::kNone;
  }
  if (may_come(tensor, cycles)) return Branch::kMayCome;
  const bool is_early = cycles < GradientPresence::kTimesForFirst;
  return is_early && may_be_other_head(tensor, state) ? Branch::kHead : Branch::kNone;
}

void forget_dead(GradientPresences& presences, const RunState& state) {
  const auto& alive = state.tensors().all();
  if (presences.size() <= alive.size()) return;
  std::erase_if(presences, [&](const auto& entry) { return !alive.contains(entry.first); });
}

}  // namespace ddpscope
