#pragma once

#include "hooks/hook_rest.h"

namespace ddpscope {

/// The gate of this process, found once at run time; a program may lack it.
class Gate {
 public:
  static bool is_present() noexcept;
  /// Sends calls of `symbol` to `hook`. True when the program's calls really arrive there.
  static bool hook(const char* symbol, void* hook, void** original) noexcept;
  /// Where calls of `symbol` jump through; null where the gate does not stand before it.
  static void** slot(const char* symbol) noexcept;

  /// Functions whose calls do not arrive at their hooks.
  struct Refused {
    int functions = 0;
    const char* reason = "";  ///< of the last one
    const char* fix = "";
  };
  /// Those since the last call.
  static Refused take_refused() noexcept;
};

/// One hook, as a row of a table: calls for each of two thousand would be 200 KB of code.
struct HookRow {
  const char* symbol = "";
  void* hook = nullptr;
  void** original = nullptr;

  bool install() const noexcept { return Gate::hook(symbol, hook, original); }
  /// A hook that belongs to a group.
  bool install_in(HookGroup& group) const noexcept {
    const bool live = install();
    group.add(in_slot());
    return live;
  }
  /// After it was installed.
  HookedSlot in_slot() const noexcept {
    return {.slot = Gate::slot(symbol), .hook = hook, .at_rest = *original};
  }
};

/// One function of LibTorch that is hooked: `Result(Args...)`, with `this` first for members.
/// `Tag` makes one instance, and so one original, per function.
template <class Tag, class Function>
struct Interposed {
  static inline Function* original = nullptr;

  static HookRow row(const char* symbol, Function* hook) noexcept {
    return {symbol, reinterpret_cast<void*>(hook), reinterpret_cast<void**>(&original)};
  }
  static bool install(const char* symbol, Function* hook) noexcept {
    return row(symbol, hook).install();
  }
  /// A hook that has nothing to do in cycles that are not watched.
  static bool install_for_watched(const char* symbol, Function* hook) noexcept {
    return install_in(cycle_hooks(), symbol, hook);
  }
  /// One that then does less.
  static bool install_for_watched(const char* symbol, Function* hook, Function* at_rest) noexcept {
    return install_in(cycle_hooks(), symbol, hook, at_rest);
  }
  static bool install_in(HookGroup& group, const char* symbol, Function* hook) noexcept {
    return row(symbol, hook).install_in(group);
  }
  static bool install_in(HookGroup& group, const char* symbol, Function* hook,
                         Function* at_rest) noexcept {
    const bool live = install(symbol, hook);
    HookedSlot hooked = in_slot(symbol, hook);
    hooked.at_rest = reinterpret_cast<void*>(at_rest);
    group.add(hooked);
    return live;
  }
  static HookedSlot in_slot(const char* symbol, Function* hook) noexcept {
    return row(symbol, hook).in_slot();
  }
};

}  // namespace ddpscope

/// The mangled std::string, as it stands in the names of functions that take one.
#define DDPSCOPE_MANGLED_STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
