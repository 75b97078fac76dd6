#pragma once

#include <torch/nn/module.h>

#include <atomic>
#include <memory>

#include "hooks/weak_owner.h"

namespace ddpscope {

/// Tells whether a module object is alive without owning it.
///
/// Note [Sentinel]: a module that no shared_ptr owns has an unused weak pointer to itself, the one
/// of std::enable_shared_from_this. An expired weak pointer of ours is put there; its control
/// block is freed exactly when the module is destroyed, or when a shared_ptr adopts it, and its
/// allocator then marks the life as unknown. `shared_from_this()` behaves as before.
class ModuleLife {
 public:
  ModuleLife() = default;
  static ModuleLife of_shared(const std::shared_ptr<torch::nn::Module>& module);
  /// `module` must be alive now.
  static ModuleLife of_object(torch::nn::Module& module);

  /// The module while it is provably alive, else null. The shared pointer owns it only where the
  /// program's own does.
  std::shared_ptr<torch::nn::Module> lock() const;
  bool is_over() const noexcept;  ///< without a moment in which we own the module

 private:
  WeakOwner<torch::nn::Module> weak_;
  torch::nn::Module* object_ = nullptr;
  std::shared_ptr<std::atomic<bool>> planted_;
};

}  // namespace ddpscope
