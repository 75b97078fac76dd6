#include "hooks/module_forward.h"

#include <c10/core/GradMode.h>
#include <c10/util/Type.h>

#include "hooks/capture.h"
#include "hooks/device_waits.h"
#include "hooks/idle_rest.h"
#include "hooks/loop_phase.h"
#include "hooks/model_discovery.h"
#include "hooks/replica_bits.h"
#include "hooks/step_wait.h"

namespace ddpscope {
namespace {
using torch::nn::Module;

// An unregistered layer is told by its type and the tensors it registers itself.
void tell_loose_module(Capture& capture, const Module& module) {
  if (capture.modules().is_registered(module_id(&module))) return;
  LooseModuleEvent event{.at = capture.marker().now(),
                         .module = module_id(&module),
                         .type = c10::demangle(typeid(module).name()),
                         .evaluates = !module.is_training(),
                         .is_shared = module.weak_from_this().use_count() > 1,
                         .tensors = {}};
  for (const auto& item : module.named_parameters()) {
    event.tensors.push_back(capture.announce(item.value()));
  }
  if (!event.tensors.empty()) capture.put_large(std::move(event));
}

void look_at(const Module& module) {
  const Capture* const active = Capture::active();
  if (active == nullptr || !(active->marker().surveying() || has_discovered())) return;
  as_guest("forward", [&](Capture& capture) {
    attach_discovered(capture);
    if (capture.marker().surveying()) tell_loose_module(capture, module);
  });
}
}  // namespace

void see_module_forward(const Module& module) {
  const std::uint32_t layers = hook_state.layers.load(std::memory_order_relaxed);
  hook_state.layers.store(layers + 1, std::memory_order_relaxed);
  LoopPhase::see_forward();
  StepWait::see_forward();
  if (DeviceWaits::is_device_used()) {
    DeviceWaits::see_forward(module.is_training() && c10::GradMode::is_enabled());
  }
  IdleRest::see_layer(module);
  if (Capture::watch() != Watch::kNothing || has_discovered()) look_at(module);
  see_forward_begin();
}

}  // namespace ddpscope
