// Inner headers first: behind the public one their type names would be ambiguous.
// clang-format off
#include "hooks/capture.h"
#include "hooks/module_call.h"
#include "hooks/module_sight.h"
#include "hooks/module_tree.h"
#include "hooks/sources.h"
#include "hooks/user_hooks.h"
// clang-format on

#include <ddpscope/hooks.h>

#include <exception>
#include <stdexcept>

namespace ddpscope {
namespace {
using torch::nn::Module;

Observation observation_of(const Module& module) {
  const auto* observed = dynamic_cast<const api0::detail::ObservedModule*>(&module);
  if (observed == nullptr) return Observation::kNone;
  return observed->returns_one_tensor() ? Observation::kObservedTensor : Observation::kObserved;
}

void prepare() {
  if (const std::string mismatch = torch_mismatch(); !mismatch.empty()) {
    throw std::runtime_error("ddpscope: " + mismatch);
  }
  set_observation(observation_of);
  UserHooks::install_sources();
}

api0::ForwardCall public_call(const ForwardView& view) {
  using State = api0::ModuleCoverage::State;
  return {.module = view.module,
          .path = view.path,
          .type = view.type,
          .inputs = view.inputs,
          .outputs = view.outputs,
          .exactness = view.is_inferred ? State::kInferred : State::kExact,
          .op = view.op};
}

api0::BackwardCall public_call(const BackwardView& view) {
  using Of = api0::BackwardCall::GradientsOf;
  return {.module = view.module,
          .path = view.path,
          .type = view.type,
          .of = view.of_inputs ? Of::kInputs : Of::kOutputs,
          .gradients = view.gradients};
}

HookCallbacks inner_callbacks(api0::ModuleHooks hooks) {
  HookCallbacks callbacks;
  if (hooks.before != nullptr) {
    callbacks.before = [hook = std::move(hooks.before)](const ForwardView& view) {
      hook(public_call(view));
    };
  }
  if (hooks.after != nullptr) {
    callbacks.after = [hook = std::move(hooks.after)](const ForwardView& view) {
      hook(public_call(view));
      return at::Tensor();
    };
  }
  if (hooks.backward != nullptr) {
    callbacks.backward = [hook = std::move(hooks.backward)](const BackwardView& view) {
      hook(public_call(view));
    };
  }
  return callbacks;
}

template <class Hook>
void refuse_empty(const char* function, const Hook& hook) {
  if (hook == nullptr) throw std::invalid_argument(std::string(function) + ": no callback");
}

void refuse_replacing(const Module& module) {
  const ModuleSight sight = sight_of(module);
  if (sight.seen == Seen::kExact && sight.returns_one_tensor) return;
  const char* why = sight.seen == Seen::kExact ? "its forward does not return one tensor"
                                               : "its forward is not seen exactly";
  throw std::invalid_argument("register_forward_hook: the output of " + type_of(module) +
                              " cannot be replaced: " + why);
}

const char* const kForwardHook = "register_forward_hook";
}  // namespace

inline namespace api0 {

struct HookHandleAccess {
  static HookHandle add(const HookTarget& target, const char* function, bool whole_tree,
                        HookCallbacks callbacks) {
    Module& module = target.module(function);
    prepare();
    HookHandle handle;
    handle.hook_ = UserHooks::add(module, whole_tree, std::move(callbacks));
    return handle;
  }
};

HookHandle& HookHandle::operator=(HookHandle&& other) noexcept {
  if (this != &other) {
    remove();
    hook_ = std::exchange(other.hook_, 0);
  }
  return *this;
}

void HookHandle::remove() noexcept {
  if (const std::uint64_t hook = std::exchange(hook_, 0); hook != 0) UserHooks::remove(hook);
}

Module& HookTarget::module(const char* function) const {
  if (module_ != nullptr) return *module_;
  throw std::invalid_argument(std::string(function) + ": " +
                              (is_holder_ ? "the holder is empty" : "the pointer is null"));
}

HookHandle register_forward_pre_hook(const HookTarget& module, ForwardHook hook) {
  constexpr const char* kName = "register_forward_pre_hook";
  refuse_empty(kName, hook);
  return HookHandleAccess::add(module, kName, false, inner_callbacks({.before = std::move(hook)}));
}

namespace detail {
HookHandle add_forward_hook(const HookTarget& module, ForwardHook hook) {
  refuse_empty(kForwardHook, hook);
  return HookHandleAccess::add(module, kForwardHook, false,
                               inner_callbacks({.after = std::move(hook)}));
}

HookHandle add_forward_hook(const HookTarget& target, ReplacingHook hook) {
  refuse_empty(kForwardHook, hook);
  Module& module = target.module(kForwardHook);
  prepare();
  refuse_replacing(module);
  HookCallbacks callbacks;
  callbacks.after = [hook = std::move(hook)](const ForwardView& view) {
    return hook(public_call(view));
  };
  return HookHandleAccess::add(target, kForwardHook, false, std::move(callbacks));
}

ObservedCall::ObservedCall(Module& module) : call_(new ModuleCall(module, CallSource::kDeclared)) {}
ObservedCall::~ObservedCall() { delete static_cast<ModuleCall*>(call_); }
bool ObservedCall::is_hooked() const noexcept {
  return static_cast<ModuleCall*>(call_)->is_hooked();
}
void ObservedCall::begin(std::vector<at::Tensor> inputs) {
  static_cast<ModuleCall*>(call_)->begin(std::move(inputs));
}
void ObservedCall::end(std::vector<at::Tensor> outputs, at::Tensor* result) {
  static_cast<ModuleCall*>(call_)->end(std::move(outputs), result);
}
ObservedModule::~ObservedModule() = default;
}  // namespace detail

HookHandle register_backward_hook(const HookTarget& module, BackwardHook hook) {
  constexpr const char* kName = "register_backward_hook";
  refuse_empty(kName, hook);
  return HookHandleAccess::add(module, kName, false,
                               inner_callbacks({.backward = std::move(hook)}));
}

HookHandle register_module_hook(const HookTarget& root, ModuleHooks hooks) {
  constexpr const char* kName = "register_module_hook";
  if (hooks.before == nullptr && hooks.after == nullptr) refuse_empty(kName, hooks.backward);
  return HookHandleAccess::add(root, kName, true, inner_callbacks(std::move(hooks)));
}

std::vector<ModuleCoverage> hook_coverage(const Module& root) {
  prepare();
  std::vector<ModuleCoverage> coverage;
  for_each_below(root, [&](const Module& module, const PlaceInTree& place) {
    ModuleSight sight = sight_of(module);
    using State = ModuleCoverage::State;
    const State states[] = {State::kExact, State::kInferred, State::kBlind};
    coverage.push_back({.path = place.path,
                        .type = type_of(module),
                        .state = states[static_cast<int>(sight.seen)],
                        .why = std::move(sight.why)});
  });
  return coverage;
}

struct Scope::Call {
  std::unique_ptr<ModuleCall> module;
  std::optional<HookedCall> hooked;
  bool entered = false;
  int exceptions = std::uncaught_exceptions();

  ~Call() {
    if (entered) ModuleCalls::leave();
  }
};

Scope::Scope(std::string_view module_path) : call_(std::make_unique<Call>()) {
  const Module* module = UserHooks::any() ? UserHooks::module_at(module_path) : nullptr;
  as_guest("public API", [&](Capture& capture) {
    const ModuleId known = capture.modules().module_at(module_path);
    if (known == 0) return;
    ModuleCalls::enter(known);
    call_->entered = true;
    if (module == nullptr) module = reinterpret_cast<const Module*>(known);
  });
  if (module == nullptr || !UserHooks::any()) return;
  call_->hooked.emplace(*module, CallSource::kDeclared);
  if (*call_->hooked) call_->hooked->begin({});
}

Scope::Scope(const Module& module) : call_(std::make_unique<Call>()) {
  call_->module = std::make_unique<ModuleCall>(module, CallSource::kDeclared);
  if (call_->module->is_hooked()) call_->module->begin({});
}

Scope::~Scope() noexcept(false) {
  if (std::uncaught_exceptions() > call_->exceptions) return;
  if (call_->hooked && *call_->hooked) call_->hooked->end({}, nullptr);
  if (call_->module != nullptr && call_->module->is_hooked()) call_->module->end({}, nullptr);
}

}  // namespace api0
}  // namespace ddpscope
