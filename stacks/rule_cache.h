#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "stacks/unwind_rule.h"

namespace ddpscope {

/// The rules of the return addresses seen lately, for all threads: one word each, read and written
/// whole, so nobody ever waits. A later address may take the place of an earlier one.
class RuleCache {
 public:
  std::optional<UnwindRule> find(std::uintptr_t pc) const noexcept {
    const std::uint64_t key = key_of(pc);
    const std::uint64_t word = words_[key >> kTagBits].load(std::memory_order_relaxed);
    if ((word >> kRuleBits) != (key & kTagMask) || (word & 7) == 0) return std::nullopt;
    return unpack(word);
  }
  /// Leaves out a rule whose offsets are too large for the word.
  void keep(std::uintptr_t pc, const UnwindRule& rule) noexcept {
    const std::uint64_t key = key_of(pc);
    if (pc >> kPcBits != 0 || !fits(rule)) return;
    words_[key >> kTagBits].store((key & kTagMask) << kRuleBits | pack(rule),
                                  std::memory_order_relaxed);
  }
  void clear() noexcept {
    for (auto& word : words_) word.store(0, std::memory_order_relaxed);
  }

 private:
  // A word: 33 bits of tag, then of the rule: rbp offset / 8 in 9 bits, CFA offset / 8 in 17 bits,
  // kind of rbp in 2, kind of CFA + 1 in 3.
  static constexpr int kPcBits = 47;
  static constexpr int kIndexBits = 14;
  static constexpr int kTagBits = kPcBits - kIndexBits;
  static constexpr int kRuleBits = 64 - kTagBits;
  static constexpr std::uint64_t kTagMask = (std::uint64_t{1} << kTagBits) - 1;

  /// Turns 47 bits into 47 others, one to one, of which the upper ones differ most.
  static std::uint64_t key_of(std::uintptr_t pc) noexcept {
    return pc * 0x9e3779b97f4a7c15 & ((std::uint64_t{1} << kPcBits) - 1);
  }
  static bool fits(const UnwindRule& rule) noexcept {
    return rule.cfa_offset % 8 == 0 && rule.rbp_offset % 8 == 0 &&
           rule.cfa_offset / 8 == rule.cfa_offset / 8 << 15 >> 15 &&
           rule.rbp_offset / 8 == rule.rbp_offset / 8 << 23 >> 23;
  }
  static std::uint64_t pack(const UnwindRule& rule) noexcept {
    const auto cfa = std::uint32_t(rule.cfa_offset / 8) & 0x1ffff;
    const auto rbp = std::uint32_t(rule.rbp_offset / 8) & 0x1ff;
    return rbp << 22 | cfa << 5 | std::uint32_t(rule.rbp) << 3 | (std::uint32_t(rule.cfa) + 1);
  }
  static UnwindRule unpack(std::uint64_t word) noexcept {
    return {.cfa = UnwindRule::Cfa((word & 7) - 1),
            .rbp = UnwindRule::Rbp(word >> 3 & 3),
            .cfa_offset = std::int32_t(std::uint32_t(word) << 10) >> 15 << 3,
            .rbp_offset = std::int32_t(std::uint32_t(word) << 1) >> 23 << 3};
  }

  std::array<std::atomic<std::uint64_t>, std::size_t{1} << kIndexBits> words_{};
};

}  // namespace ddpscope
