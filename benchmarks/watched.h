#pragma once

#include <ddpscope/hooks.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

namespace benchmarks {

/// One empty hook of the program's own on each module, that can be taken away again.
class EmptyHooks {
 public:
  template <class Model>
  void know(const Model& net) {
    add_.push_back([this, net] {
      for (const auto& module : net->modules()) {
        handles_.push_back(
            ddpscope::register_forward_hook(module, [](const ddpscope::ForwardCall&) {}));
      }
    });
  }
  void add() {
    for (const auto& add : add_) add();
  }
  void remove() { handles_.clear(); }
  /// Before the process ends: what lies on a GPU cannot be given back any more then.
  void forget() {
    remove();
    add_.clear();
  }

 private:
  std::vector<std::function<void()>> add_;  // of each model
  std::vector<ddpscope::HookHandle> handles_;
};

inline EmptyHooks empty_hooks;

/// Off: gradients of earlier steps stay, a mistake to be found.
inline bool clears_gradients = true;

template <class Model>
void watch(Model& net) {
  ddpscope::attach_diagnostics(net);
  empty_hooks.know(net);
}

}  // namespace benchmarks
