#include "hooks/user_hooks.h"

#include <algorithm>
#include <mutex>

#include "hooks/hook_rest.h"
#include "hooks/inferred_calls.h"
#include "hooks/module_hooks.h"
#include "hooks/module_sight.h"
#include "hooks/telling_tensors.h"
#include "hooks/training_ops.h"

namespace ddpscope {
namespace {
using torch::nn::Module;
using HookPtr = std::shared_ptr<UserHook>;

// Never changed once it is published.
struct Table {
  std::vector<HookPtr> all;  ///< in order of registration
  std::vector<HookPtr> trees;
  std::vector<HookPtr> readers;  ///< those whose modules may be told by operators
  std::vector<HookPtr> norms;    ///< those that may be for a normalization
  std::unordered_map<const Module*, std::vector<HookPtr>> singles;
};
using TablePtr = std::shared_ptr<const Table>;

struct Published {
  std::mutex writers;
  std::atomic<TablePtr> table{std::make_shared<const Table>()};
  std::uint64_t last_id = 0;
};

Published& published() {
  static auto* const leaked = new Published;
  return *leaked;
}

TablePtr table_of(std::vector<HookPtr> hooks) {
  auto table = std::make_shared<Table>();
  for (const HookPtr& hook : hooks) {
    const bool is_tree = hook->has_whole_tree();
    (is_tree ? table->trees : table->singles[hook->module()]).push_back(hook);
    if (is_tree || hook->reads_operators()) table->readers.push_back(hook);
    if (is_tree || is_normalization(*hook->module())) table->norms.push_back(hook);
  }
  table->all = std::move(hooks);
  return table;
}

// What died goes too: its address may be another module's.
std::vector<HookPtr> living(const std::vector<HookPtr>& hooks) {
  std::vector<HookPtr> kept;
  for (const HookPtr& hook : hooks) {
    if (hook->is_alive()) kept.push_back(hook);
  }
  return kept;
}

void publish(std::vector<HookPtr> hooks) {
  hook_state.has_user_hooks.store(!hooks.empty());
  if (!hooks.empty()) operator_hooks().wake();
  const bool reads =
      std::ranges::any_of(hooks, [](const HookPtr& hook) { return hook->reads_operators(); });
  published().table.store(table_of(std::move(hooks)));
  ModuleTracker::mark_changed();  // who settled before did so without these
  infer_calls(reads);
}

template <class Find>
const Module* first_of(std::vector<HookPtr> Table::*hooks, const Find& find) {
  const TablePtr table = published().table.load();
  for (const HookPtr& hook : (*table).*hooks) {
    if (const Module* found = find(*hook)) return found;
  }
  return nullptr;
}
}  // namespace

void UserHooks::install_sources() {
  static std::once_flag once;
  std::call_once(once, [] {
    install_module_hooks();
    install_module_changes();
    install_training_ops();
  });
}

std::uint64_t UserHooks::add(Module& module, bool whole_tree, HookCallbacks callbacks) {
  install_sources();
  Published& now = published();
  TablePtr before;  // what died is destroyed after the lock: its callbacks may hold handles
  const std::lock_guard lock(now.writers);
  const std::uint64_t id = ++now.last_id;
  before = now.table.load();
  std::vector<HookPtr> hooks = living(before->all);
  hooks.push_back(std::make_shared<UserHook>(id, module, whole_tree, std::move(callbacks)));
  publish(std::move(hooks));
  return id;
}

void UserHooks::remove(std::uint64_t id) noexcept try {
  Published& now = published();
  TablePtr before;
  const std::lock_guard lock(now.writers);
  before = now.table.load();
  const auto hook = std::ranges::find(before->all, id, &UserHook::id);
  if (hook == before->all.end()) return;
  (*hook)->remove();
  publish(living(before->all));
} catch (...) {  // no memory for the shorter list: the hook is removed all the same
}

HookMatches UserHooks::matching(const Module& module) {
  HookMatches matches;
  const TablePtr table = published().table.load();
  const auto add = [&](const HookPtr& hook) {
    if (MemberPtr member = hook->member(module)) matches.push_back({hook, std::move(member)});
  };
  if (const auto found = table->singles.find(&module); found != table->singles.end()) {
    std::ranges::for_each(found->second, add);
  }
  if (table->trees.empty()) return matches;
  std::ranges::for_each(table->trees, add);
  std::ranges::sort(matches, {}, [](const HookMatch& match) { return match.hook->id(); });
  return matches;
}

const Module* UserHooks::norm_with(const c10::TensorImpl* tensor) {
  return first_of(&Table::norms, [tensor](UserHook& hook) { return hook.norm_with(tensor); });
}

const Module* UserHooks::inferred_with(const c10::TensorImpl* tensor) {
  return first_of(&Table::readers, [tensor](UserHook& hook) { return hook.inferred_with(tensor); });
}

void UserHooks::settle() {
  if (TellingTensors::are_settled()) return;
  const std::uint64_t change = ModuleTracker::changes();
  const TablePtr table = published().table.load();
  for (const HookPtr& hook : table->readers) hook->settle();
  TellingTensors::settle(change);
}

const Module* UserHooks::module_at(std::string_view path) {
  return first_of(&Table::trees, [path](UserHook& hook) { return hook.module_at(path); });
}

}  // namespace ddpscope
