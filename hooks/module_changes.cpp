#include <torch/nn/module.h>

#include "hooks/capture.h"
#include "hooks/interposed.h"
#include "hooks/model_discovery.h"
#include "hooks/module_hooks.h"
#include "hooks/module_tracker.h"

namespace torch::jit {
struct Module;
}

namespace ddpscope {
namespace {
using torch::nn::Module;

// Each of these only counts: the trees are looked at again when the step ends.
template <int kWhich, class Result, class... Arguments>
struct Change {
  using Hooked = Interposed<Change, Result(Arguments...)>;
  static Result call(Arguments... arguments) {
    ModuleTracker::mark_changed();
    return Hooked::original(std::forward<Arguments>(arguments)...);
  }
  static bool install(const char* symbol) noexcept { return Hooked::install(symbol, call); }
};

using RegisterParameter = Change<0, at::Tensor&, Module*, std::string, at::Tensor, bool>;
using RegisterBuffer = Change<1, at::Tensor&, Module*, std::string, at::Tensor>;
using Unregister = Change<2, void, Module*, const std::string&>;
// What the program asks of a model also shows where it stands.
template <int kWhich, class... Arguments>
struct ModelChange {
  using Hooked = Interposed<ModelChange, void(Module*, Arguments...)>;
  static void call(Module* self, Arguments... arguments) {
    ModuleTracker::mark_changed();
    const ProgramCall scope(*self);
    Hooked::original(self, arguments...);
  }
  static bool install(const char* symbol) noexcept { return Hooked::install(symbol, call); }
};
// What is known of a module of TorchScript is what it was when a call showed it.
struct TrainScript {
  using Hooked = Interposed<TrainScript, void(torch::jit::Module*, bool)>;
  static void call(torch::jit::Module* self, bool on) {
    Hooked::original(self, on);
    ModuleTracker::mark_changed();
    as_guest("tree", [self](Capture& capture) { capture.modules().follow_modes(*self); });
  }
  static bool install(const char* symbol) noexcept { return Hooked::install(symbol, call); }
};
using Train = ModelChange<0, bool>;
using ToDevice = ModelChange<1, at::Device, bool>;
using ToDtype = ModelChange<2, at::ScalarType, bool>;
using ToBoth = ModelChange<3, at::Device, at::ScalarType, bool>;
using ConstructBase = Change<4, void, Module*>;
using ConstructNamedBase = Change<5, void, Module*, std::string>;
}  // namespace

bool install_module_changes() noexcept {
  bool live = RegisterParameter::install(
      "_ZN5torch2nn6Module18register_parameterE" DDPSCOPE_MANGLED_STRING "N2at6TensorEb");
  live &= RegisterBuffer::install("_ZN5torch2nn6Module15register_bufferE" DDPSCOPE_MANGLED_STRING
                                  "N2at6TensorE");
  live &= Unregister::install(
      "_ZN5torch2nn6Module17unregister_moduleERKNSt7__cxx1112basic_stringIcSt11char_"
      "traitsIcESaIcEEE");
  live &= Train::install("_ZN5torch2nn6Module5trainEb");
  live &= TrainScript::install("_ZN5torch3jit6Module5trainEb");
  live &= ToDevice::install("_ZN5torch2nn6Module2toEN3c106DeviceEb");
  live &= ToDtype::install("_ZN5torch2nn6Module2toEN3c1010ScalarTypeEb");
  live &= ToBoth::install("_ZN5torch2nn6Module2toEN3c106DeviceENS2_10ScalarTypeEb");
  live &= ConstructBase::install("_ZN5torch2nn6ModuleC2Ev");
  live &= ConstructNamedBase::install("_ZN5torch2nn6ModuleC2E" DDPSCOPE_MANGLED_STRING);
  return live;
}

}  // namespace ddpscope
