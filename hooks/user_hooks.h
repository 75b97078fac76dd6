#pragma once

#include <c10/util/SmallVector.h>
#include <torch/nn/module.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hooks/hook_state.h"
#include "hooks/module_life.h"
#include "hooks/module_tree.h"

namespace ddpscope {

/// What tells a call of a module.
enum class CallSource : std::uint8_t {
  kForward,   ///< the gate, at a function of LibTorch
  kDeclared,  ///< the program's own class
  kOperator,  ///< an operator that reads a parameter of the module
};

struct ForwardView {
  const torch::nn::Module& module;
  std::string_view path;
  std::string_view type;
  std::span<const at::Tensor> inputs;
  std::span<const at::Tensor> outputs;
  bool is_inferred = false;
  std::string_view op;
};

struct BackwardView {
  const torch::nn::Module& module;
  std::string_view path;
  std::string_view type;
  bool of_inputs = false;
  std::span<const at::Tensor> gradients;
};

/// What the program wants to run; what is empty is not called.
struct HookCallbacks {
  std::function<void(const ForwardView&)> before;
  std::function<at::Tensor(const ForwardView&)> after;  ///< a defined result replaces the output
  std::function<void(const BackwardView&)> backward;
};

/// A module that a hook is for.
struct HookMember {
  PlaceInTree place;
  std::string type;
  bool is_inferred = false;      ///< its forward as a whole is not seen
  std::uint64_t generation = 0;  ///< of the attached trees that the path was looked up in
};
using MemberPtr = std::shared_ptr<const HookMember>;

/// One registration of the program: for one module, or for all below it.
class UserHook {
 public:
  UserHook(std::uint64_t id, torch::nn::Module& module, bool whole_tree, HookCallbacks callbacks);

  /// What this hook knows about `module`, null where it is not for it. Not null proves that the
  /// object is alive and the one that is meant.
  MemberPtr member(const torch::nn::Module& module);
  /// The normalization or inferred module that registers this tensor itself; null if there is none.
  const torch::nn::Module* norm_with(const c10::TensorImpl* tensor);
  const torch::nn::Module* inferred_with(const c10::TensorImpl* tensor);
  /// The module at this path below the root of a whole tree; null if there is none.
  const torch::nn::Module* module_at(std::string_view path);

  /// What proves that this module is still the living one that is meant, also later than in its
  /// call; null where it is not, or the hook was removed.
  std::shared_ptr<torch::nn::Module> proof(const HookMember& member) const;
  bool is_alive() const { return !is_removed() && life_.lock() != nullptr; }
  void remove() noexcept { removed_.store(true, std::memory_order_relaxed); }
  bool is_removed() const noexcept { return removed_.load(std::memory_order_relaxed); }
  std::uint64_t id() const noexcept { return id_; }
  const torch::nn::Module* module() const noexcept { return module_; }
  bool has_whole_tree() const noexcept { return whole_tree_; }
  bool reads_operators();
  /// Looks at the modules again, where any changed.
  void settle();
  const HookCallbacks& callbacks() const noexcept { return callbacks_; }

 private:
  struct Members {
    std::unordered_map<const torch::nn::Module*, MemberPtr> by_module;
    std::unordered_map<const c10::TensorImpl*, const torch::nn::Module*> by_tensor;
    bool any_inferred = false;
    std::uint64_t change = 0;
  };
  std::shared_ptr<const Members> look(const torch::nn::Module& root);
  std::shared_ptr<const Members> members_now(const torch::nn::Module& root);
  MemberPtr with_path(const Members& members);

  const std::uint64_t id_;
  const torch::nn::Module* const module_;
  const ModuleLife life_;
  const bool whole_tree_;
  const HookCallbacks callbacks_;
  std::atomic<bool> removed_{false};
  std::atomic<std::shared_ptr<const Members>> members_;
};

struct HookMatch {
  std::shared_ptr<UserHook> hook;
  MemberPtr member;
};
using HookMatches = c10::SmallVector<HookMatch, 2>;

/// The hooks of the program. Readers take no lock.
class UserHooks {
 public:
  /// Whether there is any: all that a forward asks where there is none.
  static bool any() noexcept { return hook_state.has_user_hooks.load(std::memory_order_relaxed); }

  /// Puts the hooks of ours in that hooks of the program need, once.
  static void install_sources();
  static std::uint64_t add(torch::nn::Module& module, bool whole_tree, HookCallbacks callbacks);
  static void remove(std::uint64_t id) noexcept;

  /// Those for this module, in order of their registration.
  static HookMatches matching(const torch::nn::Module& module);
  static const torch::nn::Module* norm_with(const c10::TensorImpl* tensor);
  static const torch::nn::Module* inferred_with(const c10::TensorImpl* tensor);
  static const torch::nn::Module* module_at(std::string_view path);
  /// Every hook that operators may tell of looks at its modules.
  static void settle();
};

}  // namespace ddpscope
