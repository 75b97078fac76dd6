#pragma once

#include <ddpscope/ddpscope.h>
#include <ddpscope/observed_call.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Hooks on the forward and backward of any module, with or without `attach_diagnostics` and
/// whatever `DDPSCOPE` says. docs/hooks.md tells which modules are seen, and how.
namespace ddpscope {
inline namespace api0 {

/// How well the calls of one module are seen.
struct ModuleCoverage {
  enum class State : std::uint8_t {
    kExact,     ///< every call of forward, begin and end
    kInferred,  ///< no call, but each operator that reads a parameter of the module's own
    kBlind,     ///< nothing
  };
  std::string path;  ///< registered path below the root that was asked about; "" is that root
  std::string type;  ///< demangled class
  State state = State::kBlind;
  std::string why;  ///< one sentence
};

/// One call of a module's forward. What it shows is valid while the callback runs; a tensor that
/// is copied out of it stays.
struct ForwardCall {
  const torch::nn::Module& module;
  /// Registered path below the root the hook was registered with, "" for that root. Of a hook on a
  /// single module: its path in the attached model, "" where none is attached.
  std::string_view path;
  std::string_view type;  ///< demangled class
  /// The tensors among the arguments in order, also those in tuples, vectors and optionals;
  /// undefined ones included. Empty for a call that a `Scope` tells.
  std::span<const at::Tensor> inputs;
  std::span<const at::Tensor> outputs;  ///< the same of the result; empty before forward
  ModuleCoverage::State exactness = ModuleCoverage::State::kExact;
  std::string_view op;  ///< of an inferred call: the operator, as `aten::mm`; else ""
};

/// Gradients of one call of forward that autograd recorded. Every backward through it gives up to
/// two of these: of the outputs, before the module's own backward runs, and of the inputs that
/// require a gradient, when they are complete.
struct BackwardCall {
  enum class GradientsOf : std::uint8_t { kOutputs, kInputs };
  const torch::nn::Module& module;
  std::string_view path;  ///< as in ForwardCall
  std::string_view type;
  GradientsOf of = GradientsOf::kOutputs;
  /// One for each tensor of `ForwardCall::outputs` or `inputs`: the total gradient of that tensor,
  /// as `torch::autograd::grad` gives it, also from its other uses. Undefined where the tensor
  /// requires none or none arrived. These are the very tensors that autograd goes on with: do not
  /// write into them.
  std::span<const at::Tensor> gradients;
};

using ForwardHook = std::function<void(const ForwardCall&)>;
using ReplacingHook = std::function<at::Tensor(const ForwardCall&)>;
using BackwardHook = std::function<void(const BackwardCall&)>;

/// Callbacks for every module below a root; what is empty is not called.
struct ModuleHooks {
  ForwardHook before{};
  ForwardHook after{};
  BackwardHook backward{};
};

/// The registration of one hook. Its end removes the hook. May outlive the module.
class [[nodiscard, gnu::visibility("default")]] HookHandle {
 public:
  HookHandle() = default;
  HookHandle(HookHandle && other) noexcept : hook_(std::exchange(other.hook_, 0)) {}
  HookHandle& operator=(HookHandle&& other) noexcept;
  ~HookHandle() { remove(); }

  /// Removes the hook. Idempotent, on any thread, also inside a callback, of itself and of others.
  /// Afterwards no call of it begins; one that runs on another thread may still go on.
  void remove() noexcept;
  /// Keeps the hook as long as the module lives.
  void release() noexcept { hook_ = 0; }

 private:
  friend struct HookHandleAccess;
  std::uint64_t hook_ = 0;
};

/// What a hook is registered with: a module object, a pointer to one, or a holder.
class DDPSCOPE_API HookTarget {
 public:
  HookTarget(torch::nn::Module& module) : module_(&module) {}  // NOLINT
  HookTarget(torch::nn::Module* module) : module_(module) {}   // NOLINT
  template <std::derived_from<torch::nn::Module> M>
  HookTarget(const std::shared_ptr<M>& module) : module_(module.get()) {}  // NOLINT
  template <class M>
  HookTarget(const torch::nn::ModuleHolder<M>& holder)  // NOLINT
      : module_(holder.is_empty() ? nullptr : holder.ptr().get()), is_holder_(true) {}

  /// @throws std::invalid_argument if there is no module; the message names `function`.
  torch::nn::Module& module(const char* function) const;

 private:
  torch::nn::Module* module_;
  bool is_holder_ = false;
};

// Rules of all registrations.
//
// Callbacks run on the thread that calls forward, or that runs backward, in order of their
// registration. They may run on several threads at once. What they throw reaches the caller of
// forward or backward. What a callback calls fires no hooks.
// A hook ends with its module, and never fires for another one at the same address. Copies and
// clones of a module carry none. A module that a shared_ptr adopts later is another one: register
// when it is owned.
//
// @throws std::invalid_argument if the target is null or a callback is empty; the message says
//         what. @throws std::runtime_error if this LibTorch is not the one of `built_for_torch()`.
// Thread: any, while no other thread changes the module tree.

/// Calls `hook` before each forward of the module.
DDPSCOPE_API HookHandle register_forward_pre_hook(const HookTarget& module, ForwardHook hook);

namespace detail {
DDPSCOPE_API HookHandle add_forward_hook(const HookTarget& module, ForwardHook hook);
DDPSCOPE_API HookHandle add_forward_hook(const HookTarget& module, ReplacingHook hook);

template <class Hook>
concept Replaces = std::convertible_to<std::invoke_result_t<Hook&, const ForwardCall&>, at::Tensor>;
template <class Hook>
concept OnForward = std::invocable<Hook&, const ForwardCall&> &&
    (std::is_void_v<std::invoke_result_t<Hook&, const ForwardCall&>> || Replaces<Hook>);
}  // namespace detail

/// Calls `hook` after each forward of the module that did not throw. A hook that returns a tensor
/// replaces the output by it; the next hooks see that one. An undefined tensor changes nothing.
///
/// @throws std::invalid_argument also if `hook` returns a tensor and the forward of this class is
///         not seen exactly or does not return one tensor; the message names the class.
template <detail::OnForward Hook>
HookHandle register_forward_hook(const HookTarget& module, Hook hook) {
  if constexpr (detail::Replaces<Hook>) {
    return detail::add_forward_hook(module, ReplacingHook(std::move(hook)));
  } else {
    return detail::add_forward_hook(module, ForwardHook(std::move(hook)));
  }
}

/// Calls `hook` in each backward through a call of the module, see `BackwardCall`. The gradients
/// are read where autograd hands them on: nothing is copied, kept or put into the graph's values,
/// and no tensor is wrapped, so that in-place operators go on working. The callback runs on the
/// engine's thread of the device and on the stream of the backward.
DDPSCOPE_API HookHandle register_backward_hook(const HookTarget& module, BackwardHook hook);

/// Calls the hooks for `root` and for all modules that are registered below it, now or later.
DDPSCOPE_API HookHandle register_module_hook(const HookTarget& root, ModuleHooks hooks);

/// How the calls of `root` and of each module below it are seen, in order of registration.
DDPSCOPE_API std::vector<ModuleCoverage> hook_coverage(const torch::nn::Module& root);
/// @throws std::invalid_argument if there is no module.
template <class M>
std::vector<ModuleCoverage> hook_coverage(const std::shared_ptr<M>& root) {
  return hook_coverage(HookTarget(root).module("hook_coverage"));
}
template <class M>
std::vector<ModuleCoverage> hook_coverage(const torch::nn::ModuleHolder<M>& root) {
  return hook_coverage(HookTarget(root).module("hook_coverage"));
}

/// `Impl` whose forward tells hooks its calls exactly, with inputs and outputs:
/// `auto net = std::make_shared<ddpscope::Observed<NetImpl>>(…)`, or
/// `using Net = torch::nn::ModuleHolder<ddpscope::Observed<NetImpl>>`. It may stand wherever `Impl`
/// may. A forward that is no overload set keeps its signature, without default arguments; any other
/// is reached by a template. `clone()` of an `Impl` that derives from `torch::nn::Cloneable` gives
/// a plain `Impl`.
template <class Impl>
class Observed : public detail::ObservedForward<Impl> {
 public:
  using Method = detail::ObservedForward<Impl>;
  using Method::Method;
};

}  // namespace api0
}  // namespace ddpscope
