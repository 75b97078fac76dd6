#include "hooks/sources.h"

#include <c10/util/Type.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/error_watch.h"
#include "hooks/gradient_watch.h"
#include "hooks/model_discovery.h"
#include "hooks/module_hooks.h"
#include "hooks/op_callbacks.h"
#include "hooks/optimizer_watch.h"

namespace ddpscope {
namespace {
using torch::nn::Module;

// An unregistered layer is told by its type and the tensors it registers itself.
void tell_loose_module(Capture& capture, const Module& module) {
  if (capture.modules().is_registered(module_id(&module))) return;
  LooseModuleEvent event{.at = capture.marker().now(),
                         .module = module_id(&module),
                         .type = c10::demangle(typeid(module).name())};
  for (const auto& item : module.named_parameters()) {
    event.tensors.push_back(capture.announce(item.value()));
  }
  if (!event.tensors.empty()) capture.put_large(std::move(event));
}

void enter_module(const Module& module) {
  ModuleCalls::enter(module_id(&module));
  const Capture* active = Capture::active();
  if (active == nullptr || !(active->marker().surveying() || has_discovered())) return;
  as_guest("forward", [&](Capture& capture) {
    attach_discovered(capture);
    if (capture.marker().surveying()) tell_loose_module(capture, module);
  });
}

void leave_module(const Module&, bool) { ModuleCalls::leave(); }

const char* word(bool live) { return live ? "live" : "absent"; }
}  // namespace

std::map<std::string, std::string> install_sources() {
  add_module_hook({.before = enter_module, .after = leave_module});
  const bool changes = install_module_changes();
  return {{"tree", changes ? "live" : "fallback"},
          {"forward", word(install_module_hooks())},
          {"op", "live"},
          {"graph", word(install_autograd_watch())},
          {"gradient", word(install_gradient_watch())},
          {"optimizer", word(install_optimizer_watch())},
          {"error", word(install_error_watch())}};
}

std::string torch_mismatch() {
  using AbiVersion = std::uint64_t();
  auto* const abi_version =
      reinterpret_cast<AbiVersion*>(dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"));
  if (abi_version == nullptr) return "";
  const std::uint64_t packed = abi_version();
  const auto major = packed >> 56;
  const auto minor = (packed >> 48) & 0xff;
  if (major == TORCH_VERSION_MAJOR && minor == TORCH_VERSION_MINOR) return "";
  return "built for LibTorch " TORCH_VERSION ", but the program runs LibTorch " +
         std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace ddpscope
