#include "hooks/sources.h"

#include <dlfcn.h>
#include <torch/version.h>

#include "hooks/archive_watch.h"
#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/collective_watch.h"
#include "hooks/convolution_watch.h"
#include "hooks/device_pass.h"
#include "hooks/device_waits.h"
#include "hooks/error_watch.h"
#include "hooks/grad_mode_watch.h"
#include "hooks/gradient_watch.h"
#include "hooks/interposed.h"
#include "hooks/loader_watch.h"
#include "hooks/loop_phase.h"
#include "hooks/loss_watch.h"
#include "hooks/model_discovery.h"
#include "hooks/module_hooks.h"
#include "hooks/node_values.h"
#include "hooks/op_callbacks.h"
#include "hooks/optimizer_watch.h"
#include "hooks/range_ops.h"
#include "hooks/readers.h"
#include "hooks/reducer_watch.h"
#include "hooks/replica_bits.h"
#include "hooks/sampler_watch.h"
#include "hooks/saved_watch.h"
#include "hooks/step_wait.h"
#include "hooks/training_ops.h"
#include "hooks/write_scope.h"

namespace ddpscope {
namespace {
// The functions of each source that could not be taken; written once, before capture runs.
std::map<std::string, Gate::Refused>& refusals() {
  static auto* const leaked = new std::map<std::string, Gate::Refused>;
  return *leaked;
}

const char* fallback_of(const std::string& source) {
  if (source == "tree") return "trees are read when a model is attached";
  if (source == "error") return "the checks of LibTorch tell their errors";
  return "";
}

bool install_write_sources() noexcept {
  const bool modes = install_grad_mode_watch();
  return install_writers() && modes;
}

bool install_value_sources() noexcept {
  const bool loss = install_loss_watch();
  return install_node_values() && loss;
}

bool install_loader_sources() noexcept {
  const bool threads = install_loader_watch();
  return install_sampler_watch() && threads;
}

const char* install(const std::string& source, bool (*hooks)() noexcept) {
  Gate::take_refused();
  const bool live = hooks();
  if (const Gate::Refused refused = Gate::take_refused(); refused.functions > 0) {
    refusals()[source] = refused;
  }
  return live ? "live" : "absent";
}
}  // namespace

std::map<std::string, std::string> install_sources() {
  const bool changes = install("tree", install_module_changes) == std::string("live");
  const std::string optimizer = install("optimizer", install_optimizer_watch);
  std::string error = install("error", install_throw_watch);
  if (error == "absent" && install("error", install_check_watch) == std::string("live")) {
    error = "fallback";
  }
  return {{"tree", changes ? "live" : "fallback"},
          {"forward", install("forward", install_module_hooks)},
          {"op", "live"},
          {"buffer", "live"},
          {"training_op", install("training_op", install_training_ops)},
          {"graph", install("graph", install_autograd_watch)},
          {"gradient", install("gradient", install_gradient_watch)},
          {"optimizer", optimizer},
          {"zero_gradient", optimizer},
          {"write", install("write", install_write_sources)},
          {"saved", install("saved", install_saved_watch)},
          {"value", install("value", install_value_sources)},
          {"device_value", has_cuda_passes() ? "live" : "absent"},
          {"convolution", install("convolution", install_convolution_watch)},
          {"loader", install("loader", install_loader_sources)},
          {"archive", install("archive", install_archive_watch)},
          {"batch", install("batch", install_first_readers)},
          {"target", install("target", install_range_ops)},
          {"wait", install("wait", install_wait_ops)},
          {"collective", install("collective", install_collective_watch)},
          {"reducer", install("reducer", install_reducer_watch)},
          {"error", error}};
}

void tell_refused_hooks(Capture& capture) {
  // One cause is told once, whatever it takes.
  std::map<std::string, HookRefusedEvent> by_cause;
  for (const auto& [source, refused] : refusals()) {
    HookRefusedEvent& event = by_cause[refused.reason];
    event.point = event.point.empty() ? "interposed " + source + " functions"
                                      : std::string("interposed functions");
    event.reason = refused.reason;
    event.fix = refused.fix;
    event.occupied_count += refused.functions;
    event.fallback = fallback_of(source);
    if (event.fallback.empty()) event.sources.push_back(source);
  }
  for (auto& [cause, event] : by_cause) {
    event.at = capture.marker().now();
    if (!event.sources.empty()) event.fallback.clear();
    capture.put_large(std::move(event));
  }
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
