#pragma once

#include <cstdint>

namespace ddpscope {

/// How the caller's frame is found at one program counter: its CFA (the stack pointer after the
/// return) and where the caller's rbp lies. The return address always lies at CFA - 8.
struct UnwindRule {
  enum class Cfa : std::uint8_t {
    kNone,       ///< nothing is known of this address, or it lies in a signal's frame
    kOutermost,  ///< nobody called this
    kOther,      ///< a rule that only a whole unwinder can follow
    kRsp,        ///< rsp + offset
    kRbp,        ///< rbp + offset
    kAtRbp       ///< the word at rbp + offset: frames that realign the stack
  };
  enum class Rbp : std::uint8_t { kSame, kAtCfa, kAtRbp };

  Cfa cfa = Cfa::kNone;
  Rbp rbp = Rbp::kSame;
  std::int32_t cfa_offset = 0;
  std::int32_t rbp_offset = 0;
  friend bool operator==(const UnwindRule&, const UnwindRule&) = default;
};

/// The rule for the instruction before the return address `pc`, read from .eh_frame; `unloads`
/// becomes the number of libraries that the process has unloaded. Takes the loader's lock.
UnwindRule read_unwind_rule(std::uintptr_t pc, std::uint64_t* unloads) noexcept;

}  // namespace ddpscope
