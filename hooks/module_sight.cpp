#include "hooks/module_sight.h"

#include <c10/util/Type.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>

#include <algorithm>
#include <atomic>

#include "hooks/interposed.h"
#include "hooks/module_hooks.h"
#include "hooks/module_tree.h"
#include "hooks/training_ops.h"

namespace ddpscope {
namespace {
using torch::nn::Module;
constinit std::atomic<Observation (*)(const Module&)> observation{nullptr};

constexpr const char* kTellIt =
    "; ddpscope::Observed<…> or a ddpscope::Scope in its forward makes it exact";

template <class... Layers>
bool is_one_of(const Module& module) {
  return ((dynamic_cast<const Layers*>(&module) != nullptr) || ...);
}
template <class... Layers>
bool is_exactly_one_of(const Module& module) {
  return ((typeid(module) == typeid(Layers)) || ...);
}
#define DDPSCOPE_NORMALIZATIONS                                                       \
  torch::nn::BatchNorm1dImpl, torch::nn::BatchNorm2dImpl, torch::nn::BatchNorm3dImpl, \
      torch::nn::InstanceNorm1dImpl, torch::nn::InstanceNorm2dImpl, torch::nn::InstanceNorm3dImpl

bool has_any(const Registered::Tensors& tensors) {
  return std::ranges::any_of(tensors, [](const auto& item) { return item.value().defined(); });
}

bool has_own_tensor(const Module& module) {
  return has_any(Registered::parameters(module)) || has_any(Registered::buffers(module));
}

ModuleSight sight_of_builtin(const BuiltinForward& builtin) {
  if (!builtin.live) {
    return {.seen = Seen::kBlind,
            .why = std::string(Gate::is_present() ? "calls of its forward do not arrive at the gate"
                                                  : "the program runs without the gate") +
                   kTellIt,
            .is_builtin = true};
  }
  return {.seen = Seen::kExact,
          .why = "LibTorch's own forward, called through the gate",
          .is_builtin = true,
          .returns_one_tensor = builtin.returns_one_tensor};
}

ModuleSight sight_of_derived(const BuiltinForward& builtin) {
  return {.seen = Seen::kInferred,
          .why = "calls of " + std::string(builtin.name) +
                 "::forward are seen, not what the derived class adds" + kTellIt,
          .is_builtin = true};
}

ModuleSight sight_of_normalization(const Module& module) {
  if (!normalizations_are_live()) {
    return {.seen = Seen::kBlind,
            .why = std::string("its operator does not pass through the gate") + kTellIt};
  }
  if (!has_own_tensor(module)) {
    return {.seen = Seen::kBlind,
            .why = std::string("it has neither weights nor running statistics by which the call "
                               "of its operator could be told") +
                   kTellIt};
  }
  if (is_exactly_one_of<DDPSCOPE_NORMALIZATIONS>(module)) {
    return {.seen = Seen::kExact,
            .why = "the operator that its forward calls, told by the tensors it registers",
            .returns_one_tensor = true};
  }
  return {.seen = Seen::kInferred,
          .why = std::string("the operator of its base is seen, not what the derived class adds") +
                 kTellIt};
}

ModuleSight sight_of_other(const Module& module) {
  if (has_any(Registered::parameters(module))) {
    return {.seen = Seen::kInferred,
            .why = std::string("its forward is compiled into the program: the operators that read "
                               "its own parameters are seen") +
                   kTellIt};
  }
  return {.seen = Seen::kBlind,
          .why = std::string("its forward is compiled into the program, and it registers no "
                             "parameter of its own") +
                 kTellIt};
}
}  // namespace

ModuleSight sight_of(const Module& module) {
  if (auto* const of = observation.load(); of != nullptr && of(module) != Observation::kNone) {
    return {.seen = Seen::kExact,
            .why = "ddpscope::Observed tells its calls",
            .is_builtin = true,
            .returns_one_tensor = of(module) == Observation::kObservedTensor};
  }
  const auto builtins = builtin_forwards();
  for (const BuiltinForward& builtin : builtins) {
    if (*builtin.type == typeid(module)) return sight_of_builtin(builtin);
  }
  if (is_normalization(module)) return sight_of_normalization(module);
  for (const BuiltinForward& builtin : builtins) {
    if (builtin.live && builtin.is_base_of(module)) return sight_of_derived(builtin);
  }
  return sight_of_other(module);
}

bool is_normalization(const Module& module) { return is_one_of<DDPSCOPE_NORMALIZATIONS>(module); }

std::string type_of(const Module& module) {
  constexpr std::string_view kObserved = "ddpscope::api0::Observed<";
  std::string name = c10::demangle(typeid(module).name());
  if (!name.starts_with(kObserved)) return name;
  name = name.substr(kObserved.size(), name.size() - kObserved.size() - 1);
  while (name.ends_with(' ')) name.pop_back();  // `Observed<Impl<int> >`
  return name;
}

void set_observation(Observation (*of)(const Module&)) noexcept { observation.store(of); }

}  // namespace ddpscope
