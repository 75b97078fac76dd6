#include "hooks/interposed.h"

#include <dlfcn.h>

#include <map>
#include <string>
#include <utility>

#include "hooks/outer_hook.h"
#include "interpose/gate.h"

namespace ddpscope {
namespace {
template <class Function>
Function* gate_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

thread_local Gate::Refused refused;

// Note [Outer hooks]
struct HookPair {
  void* inner = nullptr;
  void* outer = nullptr;
  void** original_of_outer = nullptr;
};
std::map<std::string, HookPair>* remembered = nullptr;

constexpr char kLinkIt[] =
    "link libddpscope_preload.so before LibTorch, as the CMake target ddpscope::ddpscope and "
    "pkg-config --libs ddpscope do";

bool refuse(const char* reason, const char* fix = "") {
  ++refused.functions;
  refused.reason = reason;
  refused.fix = fix;
  return false;
}
}  // namespace

bool Gate::is_present() noexcept {
  return gate_function<decltype(ddpscope_gate_hook)>("ddpscope_gate_hook") != nullptr;
}

bool Gate::hook(const char* symbol, void* hook, void** original) noexcept {
  static auto* const put = gate_function<decltype(ddpscope_gate_hook)>("ddpscope_gate_hook");
  static auto* const entry = gate_function<decltype(ddpscope_gate_entry)>("ddpscope_gate_entry");
  if (put == nullptr || entry == nullptr) {
    return refuse("are out of reach without libddpscope_preload.so", kLinkIt);
  }
  if (put(symbol, hook, original) == 0) {
    return refuse("are linked statically, or this LibTorch does not offer them");
  }
  if (remembered != nullptr) {
    HookPair& pair = (*remembered)[symbol];
    pair.inner = hook;
    if (pair.outer != nullptr) hook_before(symbol, pair.outer, pair.original_of_outer);
  }
  // Behind another library in the search order the gate's entry is not what calls are bound to.
  const void* const bound = dlsym(RTLD_DEFAULT, symbol);
  if (bound == entry(symbol)) return true;
  return bound == *original
             ? refuse("are bound to LibTorch, which was loaded before libddpscope_preload.so",
                      kLinkIt)
             : refuse("belong to another library of the program");
}

void** Gate::slot(const char* symbol) noexcept {
  static auto* const slot_of = gate_function<decltype(ddpscope_gate_slot)>("ddpscope_gate_slot");
  return slot_of == nullptr ? nullptr : slot_of(symbol);
}

Gate::Refused Gate::take_refused() noexcept { return std::exchange(refused, {}); }

void remember_hooks() {
  if (remembered == nullptr) remembered = new std::map<std::string, HookPair>;
}

bool hook_before(const char* symbol, void* hook, void** original) noexcept {
  auto* const put = gate_function<decltype(ddpscope_gate_hook)>("ddpscope_gate_hook");
  if (remembered == nullptr || put == nullptr || put(symbol, hook, original) == 0) return false;
  HookPair& pair = (*remembered)[symbol];
  if (pair.inner != nullptr) *original = pair.inner;
  pair.outer = hook;
  pair.original_of_outer = original;
  return true;
}

}  // namespace ddpscope
