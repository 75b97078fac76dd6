#pragma once

#include <memory>
#include <string>

namespace torch::jit {
struct Module;
}

namespace ddpscope {

/// Tells whether an object of TorchScript is alive without owning it. Handles of one object are
/// the same.
class ScriptLife {
 public:
  ScriptLife() = default;
  explicit ScriptLife(const torch::jit::Module& module);

  bool is_any() const noexcept { return weak_ != nullptr; }
  bool is_over() const noexcept;
  /// Null where it is over.
  std::shared_ptr<const torch::jit::Module> lock() const;
  bool is_training() const;

 private:
  struct Weak;
  std::shared_ptr<Weak> weak_;
};

/// Its place in memory, as that of a module in C++ tells it from others.
const void* object_of(const torch::jit::Module& module);
/// The name of its class, without that of its file.
std::string class_of(const torch::jit::Module& module);

}  // namespace ddpscope
