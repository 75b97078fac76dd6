#include "hooks/module_tracker.h"

#include <c10/util/Type.h>

#include <algorithm>
#include <utility>

#include "hooks/call_names.h"
#include "hooks/capture.h"
#include "hooks/op_callbacks.h"
#include "hooks/replica_bits.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
using torch::nn::Module;
constexpr std::size_t kManyRoots = 64;

std::uint64_t hash_of(const TreeEvent& event) {
  Hash hash;
  hash.add(std::string_view(event.label));
  for (const ModuleInfo& module : event.modules) {
    hash.fold(module.id);
    hash.add(std::string_view(module.path));
    hash.fold(module.training);
  }
  for (const RegisteredTensor& registered : event.tensors) {
    hash.fold(registered.tensor.id);
    hash.add(std::string_view(registered.name));
    hash.fold(registered.tensor.requires_grad);
    hash.add(std::string_view(registered.tensor.device));
  }
  return hash.value();
}
}  // namespace

constinit std::atomic<std::uint64_t> ModuleTracker::changes_{1};
constinit std::atomic<std::uint64_t> ModuleTracker::told_{0};

ModelId ModuleTracker::attach(Capture& capture, std::shared_ptr<Module> root) {
  const std::lock_guard lock(mutex_);
  forget_dead(capture, root.get());
  Root& entry = find_or_add(capture, root.get(), c10::demangle(typeid(*root).name()));
  entry.life = ModuleLife::of_shared(root);
  look_anew(capture, entry);
  return entry.model;
}

ModelId ModuleTracker::attach(Capture& capture, Module& root) {
  return attach(capture, root, ModuleLife::of_object(root));
}

ModelId ModuleTracker::attach(Capture& capture, const torch::jit::Module& root) {
  const std::lock_guard lock(mutex_);
  forget_dead(capture, object_of(root));
  Root& entry = find_or_add(capture, object_of(root), class_of(root));
  entry.script = ScriptTree(root);
  look_anew(capture, entry);
  return entry.model;
}

ModelId ModuleTracker::attach(Capture& capture, Module& root, const ModuleLife& life) {
  const std::lock_guard lock(mutex_);
  forget_dead(capture, &root);
  Root& entry = find_or_add(capture, &root, c10::demangle(typeid(root).name()));
  if (entry.life.is_over()) entry.life = life;
  look_anew(capture, entry);
  return entry.model;
}

// Another object may stand where one died; and a program may make models by the thousand.
void ModuleTracker::forget_dead(Capture& capture, const void* place) {
  const auto is_gone = [&](const Root& root) {
    return (root.object == place || roots_.size() >= kManyRoots) && root.is_over();
  };
  for (auto root = roots_.begin(); root != roots_.end();) {
    if (!is_gone(*root)) {
      ++root;
      continue;
    }
    tell_end(capture, *root);
    root = roots_.erase(root);
  }
  tell_ends(capture);
}

// What dies leaves its memory to others: no tensor found there later belongs to it.
void ModuleTracker::tell_ends(Capture& capture) {
  for (Root& root : roots_) {
    if (root.is_over()) tell_end(capture, root);
  }
}

void ModuleTracker::tell_end(Capture& capture, Root& root) {
  if (std::exchange(root.end_told, true)) return;
  capture.put(
      TreeEndEvent{.at = capture.marker().now(), .model = root.model, .died = root.is_over()});
}

ModelId ModuleTracker::attach(Capture& capture, const NamedTensors& tensors,
                              std::string class_name) {
  const std::lock_guard lock(mutex_);
  const auto has_these_names = [&](const Root& root) {
    return root.named_tensors &&
           std::ranges::equal(root.tensors, tensors, {}, &decltype(root.tensors)::value_type::first,
                              &NamedTensors::value_type::first);
  };
  auto known = std::ranges::find_if(roots_, has_these_names);
  Root& entry = known != roots_.end() ? *known : find_or_add(capture, nullptr, class_name);
  entry.named_tensors = true;
  entry.tensors.clear();
  for (const auto& [name, tensor] : tensors) {
    if (tensor.defined()) entry.tensors.emplace_back(name, tensor.getIntrusivePtr());
  }
  look_anew(capture, entry);
  return entry.model;
}

ModuleTracker::Root& ModuleTracker::find_or_add(Capture& capture, const void* object,
                                                const std::string& class_name) {
  const auto is_same = [&](const Root& root) {
    return object != nullptr && root.object == object && root.class_name == class_name;
  };
  if (auto known = std::ranges::find_if(roots_, is_same); known != roots_.end()) return *known;
  capture.marker().model_attached();
  ReplicaBits::model_attached(capture);
  survey_operators(capture.marker().surveying());
  const std::string label = label_for(class_name, /*model=*/0);
  Root& root = roots_.emplace_back();
  root.model = ++last_model_;
  root.object = object;
  root.owner = std::this_thread::get_id();
  root.class_name = class_name;
  root.label = label;
  return root;
}

std::string ModuleTracker::label_for(const std::string& wanted, ModelId model) const {
  // A name that the program gives may be that of a model which has died.
  const auto is_free = [model](const Root& root) {
    return root.model == model || (model != 0 && root.is_over());
  };
  std::set<std::string_view> taken;
  for (const Root& root : roots_) {
    if (!is_free(root)) taken.insert(root.label);
  }
  std::string label = wanted;
  for (int number = 2; taken.contains(label); ++number) {
    label = wanted + "#" + std::to_string(number);
  }
  return label;
}

void ModuleTracker::detach(Capture& capture, ModelId model) {
  const std::lock_guard lock(mutex_);
  const auto root = std::ranges::find(roots_, model, &Root::model);
  if (root == roots_.end()) return;
  tell_end(capture, *root);
  roots_.erase(root);
}

void ModuleTracker::rename(Capture& capture, ModelId model, std::string label) {
  const std::lock_guard lock(mutex_);
  const auto root = std::ranges::find(roots_, model, &Root::model);
  if (root == roots_.end()) return;
  root->label = label_for(label, model);
  look(capture, *root);
}

void ModuleTracker::look_again(Capture& capture, bool step_ended) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t changes = changes_.load(std::memory_order_relaxed);
  if (step_ended) tell_ends(capture);
  for (Root& root : roots_) {
    if (root.owner != std::this_thread::get_id()) continue;
    const bool changed = root.seen_change != changes;
    const bool thaws = flags_changed(root);
    if (thaws) capture.marker().leaves_reached(root.trainable_hash);
    if (changed || thaws) look(capture, root);
    if (step_ended) root.buffers.step_ended(capture);
  }
}

std::vector<at::Tensor> ModuleTracker::own_tensors(bool buffers) {
  std::vector<at::Tensor> own;
  const std::lock_guard lock(mutex_);
  for (const Root& root : roots_) {
    if (root.owner != std::this_thread::get_id()) continue;
    if (buffers) {
      root.buffers.append_to(own);
      continue;
    }
    for (const auto& [name, weak] : root.tensors) {
      if (auto impl = weak.lock(); impl.defined()) own.emplace_back(std::move(impl));
    }
  }
  return own;
}

// Also false for tensors that died: the walk that follows their replacement tells.
bool ModuleTracker::flags_changed(Root& root) const {
  Hash hash;
  for (const auto& [name, weak] : root.tensors) {
    const auto impl = weak.lock();
    hash.fold(impl.defined() && impl->requires_grad() ? 1 : 0);
  }
  const bool changed = hash.value() != root.trainable_hash && root.trainable_hash != 0;
  root.trainable_hash = hash.value();
  return changed;
}

// The program asks for it: it is told also where nothing changed.
void ModuleTracker::look_anew(Capture& capture, Root& root) {
  root.tree_hash = 0;
  look(capture, root);
  std::vector<at::Tensor> buffers;
  root.buffers.append_to(buffers);
  ReplicaBits::buffers_attached(capture, buffers);
}

void ModuleTracker::look(Capture& capture, Root& root) {
  root.seen_change = changes_.load(std::memory_order_relaxed);
  TreeEvent event{.at = capture.marker().now(),
                  .model = root.model,
                  .label = root.label,
                  .class_name = root.class_name};
  TreeWalk walk(capture, event);
  if (root.named_tensors) {
    walk.visit(root.tensors, root.class_name);
    return tell(capture, root, std::move(event));
  }
  if (root.script.is_any()) {
    walk.visit(root.script);
  } else if (const std::shared_ptr<Module> module = root.life.lock()) {
    walk.visit(*module);
  } else {
    return;
  }
  root.tensors = walk.take_parameters();
  root.buffers.follow(capture, walk.buffers());
  tell(capture, root, std::move(event));
}

void ModuleTracker::tell(Capture& capture, Root& root, TreeEvent&& event) {
  flags_changed(root);
  const std::uint64_t hash = hash_of(event);
  if (hash == root.tree_hash) return;
  event.attached = std::exchange(root.tree_hash, hash) == 0;
  root.modules.clear();
  root.by_path.clear();
  for (const ModuleInfo& module : event.modules) {
    root.modules.push_back(module.id);
    root.by_path.emplace(module.path, module.id);
  }
  std::ranges::sort(root.modules);
  told_.fetch_add(1, std::memory_order_relaxed);
  call_names().tree_told(event);
  capture.put_large(std::move(event));
}

}  // namespace ddpscope
