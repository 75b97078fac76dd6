#include "stacks/capture.h"

#include <unwind.h>

#include <atomic>
#include <cstdint>

#include "stacks/address.h"
#include "stacks/rule_cache.h"
#include "stacks/stack_bounds.h"
#include "stacks/unwind_rule.h"

namespace ddpscope {
namespace {

/// What the unwinder of the C++ runtime finds from `from` on: slow, and knows every rule.
struct SlowWalk {
  std::span<void*> frames;
  const void* from = nullptr;
  std::size_t count = 0;
  bool met = false;
  bool full = false;
};

_Unwind_Reason_Code slow_step(_Unwind_Context* context, void* argument) noexcept {
  auto& walk = *static_cast<SlowWalk*>(argument);
  void* pc = pointer_to<void>(::_Unwind_GetIP(context));
  walk.met = walk.met || pc == walk.from;
  if (!walk.met || pc == nullptr) return _URC_NO_REASON;
  walk.full = walk.count == walk.frames.size();
  if (walk.full) return _URC_NORMAL_STOP;
  walk.frames[walk.count++] = pc;
  return _URC_NO_REASON;
}

[[gnu::noinline]] CapturedStack walk_slowly(std::span<void*> frames, const void* from) noexcept {
  SlowWalk walk{.frames = frames, .from = from};
  ::_Unwind_Backtrace(slow_step, &walk);
  return {.frames = walk.count, .complete = walk.met && !walk.full};
}

#ifdef __x86_64__

constinit RuleCache rule_cache;
constinit std::atomic<std::uint64_t> known_unloads = 0;

/// Where a rule is out of date, any word of the stack may be read.
[[gnu::no_sanitize_address]] std::uintptr_t word_at(std::uintptr_t address) noexcept {
  return *pointer_to<const std::uintptr_t>(address);
}

struct Registers {
  std::uintptr_t pc = 0;
  std::uintptr_t rsp = 0;
  std::uintptr_t rbp = 0;
};

/// The caller's registers; pc is 1 where the rule leads out of the stack.
Registers leave(PackedRule rule, const StackBounds& stack, Registers at) noexcept {
  const Registers lost{.pc = 1};
  std::uintptr_t cfa = rule.cfa() == UnwindRule::Cfa::kRsp ? at.rsp : at.rbp;
  cfa += std::uintptr_t(rule.cfa_offset());
  if (rule.cfa() == UnwindRule::Cfa::kAtRbp) {
    if (!stack.holds_word(cfa)) return lost;
    cfa = word_at(cfa);
  }
  if (cfa <= at.rsp || !stack.holds_word(cfa - 8)) return lost;
  std::uintptr_t rbp = at.rbp;
  if (rule.rbp() != UnwindRule::Rbp::kSame) {
    const std::uintptr_t base = rule.rbp() == UnwindRule::Rbp::kAtCfa ? cfa : rbp;
    const std::uintptr_t saved = base + std::uintptr_t(rule.rbp_offset());
    if (!stack.holds_word(saved)) return lost;
    rbp = word_at(saved);
  }
  return {.pc = word_at(cfa - 8), .rsp = cfa, .rbp = rbp};
}

/// False if libraries were unloaded since: what is remembered of their addresses may be wrong.
[[gnu::noinline]] bool learn(std::uintptr_t pc, PackedRule* rule) noexcept {
  std::uint64_t unloads = 0;
  *rule = PackedRule(read_unwind_rule(pc, &unloads));
  const bool current = known_unloads.exchange(unloads, std::memory_order_relaxed) == unloads;
  if (!current) rule_cache.clear();
  rule_cache.keep(pc, *rule);
  return current;
}

enum class End : std::uint8_t { kOutermost, kCut, kUnloaded, kOther };

struct Walk {
  std::size_t count = 0;
  End end = End::kCut;
};

Walk walk(Registers at, std::span<void*> frames) noexcept {
  StackBounds stack = stack_bounds();
  if (!stack.holds_word(at.rsp)) stack = {};
  stack.begin = at.rsp;
  std::size_t count = 0;
  while (at.pc > 1) {
    if (count == frames.size()) return {count, End::kCut};
    frames[count++] = pointer_to<void>(at.pc);
    PackedRule rule(0);
    if (!rule_cache.find(at.pc, &rule) && !learn(at.pc, &rule)) return {count, End::kUnloaded};
    if (rule.cfa() < UnwindRule::Cfa::kRsp) {
      if (rule.cfa() == UnwindRule::Cfa::kOther) return {count, End::kOther};
      return {count, rule.cfa() == UnwindRule::Cfa::kNone ? End::kCut : End::kOutermost};
    }
    at = leave(rule, stack, at);
  }
  return {count, at.pc == 0 ? End::kOutermost : End::kCut};
}

CapturedStack capture_from(const Registers& at, std::span<void*> frames) noexcept {
  Walk result = walk(at, frames);
  if (result.end == End::kUnloaded) result = walk(at, frames);
  if (result.end == End::kOther) return walk_slowly(frames, frames[0]);
  return {.frames = result.count, .complete = result.end == End::kOutermost};
}

}  // namespace

[[gnu::noinline]] CapturedStack capture_stack(std::span<void*> frames) noexcept {
  // Asking for its address makes this function keep a frame: the caller's rbp, then the return.
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return capture_from({.pc = word_at(frame + 8), .rsp = frame + 16, .rbp = word_at(frame)}, frames);
}

#else

}  // namespace

[[gnu::noinline]] CapturedStack capture_stack(std::span<void*> frames) noexcept {
  return walk_slowly(frames, __builtin_return_address(0));
}

#endif

}  // namespace ddpscope
