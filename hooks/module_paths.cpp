#include <algorithm>

#include "hooks/module_tracker.h"

namespace ddpscope {

bool ModuleTracker::Root::is_over() const {
  if (named_tensors) return false;
  return script.is_any() ? script.is_over() : life.is_over();
}

bool ModuleTracker::Root::is_training() const {
  if (named_tensors || script.is_any()) return named_tensors || script.is_training();
  const std::shared_ptr<torch::nn::Module> alive = life.lock();
  return alive != nullptr && alive->is_training();
}

void ModuleTracker::follow_modes(const torch::jit::Module& module) {
  const ScriptTree now(module);
  const std::lock_guard lock(mutex_);
  for (Root& root : roots_) root.script.follow_modes(now);
}

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

bool ModuleTracker::is_registered(ModuleId module) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(roots_, [module](const Root& root) {
    return std::ranges::binary_search(root.modules, module);
  });
}

bool ModuleTracker::in_eval(ModuleId module) {
  const std::lock_guard lock(mutex_);
  const auto holds = [module](const Root& root) {
    return module != 0 && std::ranges::binary_search(root.modules, module);
  };
  const bool is_known = std::ranges::any_of(roots_, holds);
  bool any = false;
  for (const Root& root : roots_) {
    if (is_known && !holds(root)) continue;
    if (root.is_training()) return false;
    any |= !root.is_over();
  }
  return any;
}

}  // namespace ddpscope
