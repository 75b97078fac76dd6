#include "hooks/interposed.h"

#include <dlfcn.h>

#include "interpose/gate.h"

namespace ddpscope {
namespace {
template <class Function>
Function* gate_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}
}  // namespace

bool Gate::is_present() noexcept {
  return gate_function<decltype(ddpscope_gate_hook)>("ddpscope_gate_hook") != nullptr;
}

bool Gate::hook(const char* symbol, void* hook, void** original) noexcept {
  static auto* const put = gate_function<decltype(ddpscope_gate_hook)>("ddpscope_gate_hook");
  static auto* const entry = gate_function<decltype(ddpscope_gate_entry)>("ddpscope_gate_entry");
  if (put == nullptr || entry == nullptr || put(symbol, hook, original) == 0) return false;
  // Behind LibTorch in the search order the gate's entry is not what calls are bound to.
  return dlsym(RTLD_DEFAULT, symbol) == entry(symbol);
}

}  // namespace ddpscope
