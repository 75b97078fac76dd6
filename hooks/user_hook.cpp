#include <algorithm>

#include "hooks/capture.h"
#include "hooks/inferred_calls.h"
#include "hooks/module_sight.h"
#include "hooks/telling_tensors.h"
#include "hooks/user_hooks.h"

namespace ddpscope {
namespace {
using torch::nn::Module;
}  // namespace

UserHook::UserHook(std::uint64_t id, Module& module, bool whole_tree, HookCallbacks callbacks)
    : id_(id),
      module_(&module),
      life_(ModuleLife::of_object(module)),
      whole_tree_(whole_tree),
      callbacks_(std::move(callbacks)) {
  look(module);
}

std::shared_ptr<const UserHook::Members> UserHook::look(const Module& root) {
  auto members = std::make_shared<Members>();
  members->change = ModuleTracker::changes();
  const auto add = [&](const Module& module, const PlaceInTree& place) {
    const ModuleSight sight = sight_of(module);
    const bool is_inferred = sight.seen == Seen::kInferred;
    members->any_inferred |= is_inferred && !sight.is_builtin;
    members->by_module[&module] = std::make_shared<HookMember>(
        HookMember{.place = place, .type = type_of(module), .is_inferred = is_inferred});
    if (sight.is_builtin) return;  // its forward tells more
    for (const auto& item : Registered::parameters(module)) {
      members->by_tensor.emplace(item.value().unsafeGetTensorImpl(), &module);
      if (is_inferred) TellingTensors::add(item.value().unsafeGetTensorImpl());
    }
    if (!is_normalization(module)) return;
    for (const auto& item : Registered::buffers(module)) {
      members->by_tensor.emplace(item.value().unsafeGetTensorImpl(), &module);
    }
  };
  if (whole_tree_) {
    for_each_below(root, add);
  } else {
    add(root, {});
  }
  members_.store(members);
  if (members->any_inferred) infer_calls(true);
  return members;
}

// Programs that make a loss in each step change modules all the time, but not these.
std::shared_ptr<const UserHook::Members> UserHook::members_now(const Module& root) {
  auto members = members_.load();
  const std::uint64_t change = ModuleTracker::changes();
  if (members->change == change) return members;
  const auto is_told = [&](const auto& parameter) {
    return members->by_tensor.contains(parameter.value().unsafeGetTensorImpl());
  };
  const auto is_news = [&](const Module& module) {
    const auto& parameters = Registered::parameters(module);
    return !members->by_module.contains(&module) ||
           (std::ranges::any_of(parameters, is_told) && !std::ranges::all_of(parameters, is_told));
  };
  if (whole_tree_ ? any_below(root, is_news) : is_news(root)) return look(root);
  auto renewed = std::make_shared<Members>(*members);
  renewed->change = change;
  members_.store(renewed);
  return renewed;
}

MemberPtr UserHook::member(const Module& module) {
  if (!whole_tree_ && &module != module_) return nullptr;
  const std::shared_ptr<Module> root = life_.lock();
  if (root == nullptr || is_removed()) return nullptr;
  auto members = members_.load();
  if (!whole_tree_) return with_path(*members);
  const auto known = [&]() -> MemberPtr {
    const auto found = members->by_module.find(&module);
    const bool stands =
        found != members->by_module.end() && found->second->place.stands_below(*root);
    return stands ? found->second : nullptr;
  };
  if (MemberPtr found = known()) return found;
  const auto is_it = [&](const Module& below) { return &below == &module; };
  if (!any_below(*root, is_it)) return nullptr;
  members = look(*root);
  return known();
}

// The path of a single module is the one in an attached model, which may come and change.
MemberPtr UserHook::with_path(const Members& members) {
  const MemberPtr member = members.by_module.at(module_);
  Capture* capture = Capture::active();
  const std::uint64_t generation = ModuleTracker::trees_told();
  if (capture == nullptr || member->generation == generation) return member;
  auto renewed = std::make_shared<Members>(members);
  auto with_path = std::make_shared<HookMember>(*member);
  with_path->place.path = capture->modules().path_of(module_id(module_));
  with_path->generation = generation;
  renewed->by_module[module_] = with_path;
  members_.store(std::move(renewed));
  return with_path;
}

std::shared_ptr<Module> UserHook::proof(const HookMember& member) const {
  std::shared_ptr<Module> root = is_removed() ? nullptr : life_.lock();
  if (root == nullptr || !member.place.stands_below(*root)) return nullptr;
  return root;
}

const Module* UserHook::norm_with(const c10::TensorImpl* tensor) {
  const std::shared_ptr<Module> root = life_.lock();
  if (root == nullptr) return nullptr;
  const auto members = members_.load();
  const auto is_it = [tensor](const Module& module) {
    return Registered::holds(module, tensor) && is_normalization(module);
  };
  if (const auto found = members->by_tensor.find(tensor); found != members->by_tensor.end()) {
    const MemberPtr member = members->by_module.at(found->second);
    if (member->place.stands_below(*root) && is_it(*found->second)) return found->second;
  }
  if (!whole_tree_) return is_it(*root) ? module_ : nullptr;
  if (!any_below(*root, is_it)) return nullptr;
  const auto looked = look(*root);
  const auto found = looked->by_tensor.find(tensor);
  return found == looked->by_tensor.end() ? nullptr : found->second;
}

const Module* UserHook::inferred_with(const c10::TensorImpl* tensor) {
  const std::shared_ptr<Module> root = life_.lock();
  if (root == nullptr) return nullptr;
  const auto members = members_now(*root);
  const auto found = members->by_tensor.find(tensor);
  if (found == members->by_tensor.end()) return nullptr;
  const MemberPtr member = members->by_module.at(found->second);
  const bool stands = member->is_inferred && member->place.stands_below(*root);
  return stands && Registered::holds(*found->second, tensor) ? found->second : nullptr;
}

const Module* UserHook::module_at(std::string_view path) {
  const std::shared_ptr<Module> root = whole_tree_ ? life_.lock() : nullptr;
  if (root == nullptr) return nullptr;
  const auto is_it = [&](const auto& entry) {
    return entry.second->place.path == path && entry.second->place.stands_below(*root);
  };
  for (auto members = members_.load();; members = look(*root)) {
    const auto found = std::ranges::find_if(members->by_module, is_it);
    if (found != members->by_module.end()) return found->first;
    if (!any_below(*root,
                   [&](const Module& module) { return !members->by_module.contains(&module); })) {
      return nullptr;
    }
  }
}

void UserHook::settle() {
  if (const std::shared_ptr<Module> root = life_.lock()) members_now(*root);
}

bool UserHook::reads_operators() { return members_.load()->any_inferred; }

}  // namespace ddpscope
