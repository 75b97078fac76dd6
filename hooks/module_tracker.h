#pragma once

#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hooks/module_life.h"
#include "hooks/near_tls.h"
#include "hooks/quiet_buffers.h"
#include "hooks/script_tree.h"
#include "hooks/tree_walk.h"
#include "model/tree_event.h"

namespace ddpscope {

class Capture;
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Knows the attached roots and tells the sink what is registered below them, at attach and again
/// whenever a module or a registration changed.
class ModuleTracker {
 public:
  /// Attaches a root that a shared pointer owns, or one whose life is seen by a sentinel.
  /// The same root again gives the same id.
  ModelId attach(Capture& capture, std::shared_ptr<torch::nn::Module> root);
  ModelId attach(Capture& capture, torch::nn::Module& root);
  ModelId attach(Capture& capture, torch::nn::Module& root, const ModuleLife& life);
  ModelId attach(Capture& capture, const torch::jit::Module& root);
  ModelId attach(Capture& capture, const NamedTensors& tensors, std::string class_name);
  /// A module of TorchScript was put into another mode.
  void follow_modes(const torch::jit::Module& module);
  void detach(Capture& capture, ModelId model);
  void rename(Capture& capture, ModelId model, std::string label);

  /// Something registered, moved or replaced a tensor somewhere.
  static void mark_changed() noexcept { changes_.fetch_add(1, std::memory_order_relaxed); }
  static std::uint64_t changes() noexcept { return changes_.load(std::memory_order_relaxed); }
  /// How often some tree was told anew.
  static std::uint64_t trees_told() noexcept { return told_.load(std::memory_order_relaxed); }
  /// Looks at the roots of this thread again when something changed, and tells what differs. In the
  /// middle of a step, where something failed, at less.
  void look_again(Capture& capture, bool step_ended);
  /// The parameters, or the buffers, of the roots of this thread. Calls nothing of LibTorch.
  std::vector<at::Tensor> own_tensors(bool buffers);
  /// The modules that this thread attached, with their labels. They are alive while they are held.
  std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> own_roots();
  /// Whether this module stands in the last tree of some root.
  bool is_registered(ModuleId module);
  /// Whether every root that holds this module is in eval mode; every root if none holds it.
  bool in_eval(ModuleId module);
  /// The module that is registered at `path`, in any root; 0 if there is none.
  ModuleId module_at(std::string_view path);
  /// The other way round; "" if there is none.
  std::string path_of(ModuleId module);

 private:
  struct Root {
    ModelId model = 0;
    const void* object = nullptr;  ///< the module, or the object of TorchScript
    ModuleLife life;
    ScriptTree script;
    WeakTensors tensors;
    QuietBuffers buffers;
    bool named_tensors = false;
    std::thread::id owner;
    std::string label;
    bool end_told = false;
    std::string class_name;
    std::uint64_t seen_change = 0;
    std::uint64_t trainable_hash = 0;
    std::uint64_t tree_hash = 0;
    std::vector<ModuleId> modules;
    std::map<std::string, ModuleId, std::less<>> by_path;

    bool is_over() const;  ///< never, of named tensors
    bool is_training() const;
  };

  void forget_dead(Capture& capture, const void* place);
  void tell_ends(Capture& capture);
  void tell_end(Capture& capture, Root& root);
  Root& find_or_add(Capture& capture, const void* object, const std::string& class_name);
  /// Which no other model has: `Net`, `Net#2`.
  std::string label_for(const std::string& wanted, ModelId model) const;
  void look(Capture& capture, Root& root);
  void look_anew(Capture& capture, Root& root);
  bool flags_changed(Root& root) const;
  void tell(Capture& capture, Root& root, TreeEvent&& event);

  static constinit std::atomic<std::uint64_t> changes_;
  static constinit std::atomic<std::uint64_t> told_;
  std::mutex mutex_;
  std::list<Root> roots_;
  ModelId last_model_ = 0;
};

/// The module objects on this thread's call stack, as far as hooks see them.
class ModuleCalls {
 public:
  static void enter(ModuleId module) noexcept {
    if (depth_ < calls_.size()) calls_[depth_] = module;
    ++depth_;
  }
  static void leave() noexcept {
    if (depth_ > 0) --depth_;
  }
  static ModuleId innermost() noexcept {
    return depth_ == 0 ? 0 : calls_[std::min(depth_, calls_.size()) - 1];
  }

 private:
  DDPSCOPE_NEAR static inline constinit thread_local std::size_t depth_ = 0;
  DDPSCOPE_NEAR static inline constinit thread_local std::array<ModuleId, 64> calls_{};
};

}  // namespace ddpscope
