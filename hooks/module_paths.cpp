#include <algorithm>

#include "hooks/module_tracker.h"

namespace ddpscope {
ModuleId ModuleTracker::module_at(std::string_view path) {
  const std::lock_guard lock(mutex_);
  for (const Root& root : roots_) {
    if (const auto found = root.by_path.find(path); found != root.by_path.end()) {
      return found->second;
    }
  }
  return 0;
}

std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> ModuleTracker::own_roots() {
  std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> own;
  const std::lock_guard lock(mutex_);
  for (const Root& root : roots_) {
    if (root.owner != std::this_thread::get_id()) continue;
    if (auto module = root.life.lock()) own.emplace_back(root.label, std::move(module));
  }
  return own;
}

std::string ModuleTracker::path_of(ModuleId module) {
  const std::lock_guard lock(mutex_);
  for (const Root& root : roots_) {
    const auto is_it = [module](const auto& entry) { return entry.second == module; };
    const auto found = std::ranges::find_if(root.by_path, is_it);
    if (found != root.by_path.end()) return found->first;
  }
  return "";
}

}  // namespace ddpscope
