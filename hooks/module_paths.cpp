#include <algorithm>
#include <array>

#include "hooks/module_tracker.h"
#include "hooks/near_tls.h"

namespace ddpscope {
namespace {
DDPSCOPE_NEAR thread_local std::array<ModuleId, 64> call_stack;
DDPSCOPE_NEAR thread_local std::size_t call_depth = 0;
}  // namespace

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

void ModuleCalls::enter(ModuleId module) noexcept {
  if (call_depth < call_stack.size()) call_stack[call_depth] = module;
  ++call_depth;
}

void ModuleCalls::leave() noexcept {
  if (call_depth > 0) --call_depth;
}

ModuleId ModuleCalls::innermost() noexcept {
  return call_depth == 0 ? 0 : call_stack[std::min(call_depth, call_stack.size()) - 1];
}

}  // namespace ddpscope
