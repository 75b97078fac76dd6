#include "hooks/module_call.h"

#include <array>
#include <atomic>
#include <exception>

#include "hooks/module_hooks.h"

namespace ddpscope {
namespace {
// Filled at start-up, when hooks of the program may run already.
constexpr std::size_t kMaxRecorders = 8;
std::array<ModuleHook, kMaxRecorders> recorders;
constinit std::atomic<std::size_t> recorder_count{0};
}  // namespace

void add_module_hook(const ModuleHook& hook) {
  const std::size_t count = recorder_count.load();
  if (count == recorders.size()) return;
  recorders[count] = hook;
  recorder_count.store(count + 1, std::memory_order_release);
}

ModuleCall::ModuleCall(const torch::nn::Module& module, CallSource source)
    : module_(module),
      recorders_(recorder_count.load(std::memory_order_acquire)),
      exceptions_(std::uncaught_exceptions()) {
  if (UserHooks::any()) hooked_.emplace(module, source);
  for (std::size_t i = 0; i < recorders_; ++i) recorders[i].before(module_);
}

ModuleCall::~ModuleCall() {
  const bool threw = std::uncaught_exceptions() > exceptions_;
  for (std::size_t i = recorders_; i > 0; --i) recorders[i - 1].after(module_, threw);
}

}  // namespace ddpscope
