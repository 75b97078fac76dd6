#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stacks/unwind_rule.h"

namespace ddpscope {

/// An UnwindRule in the upper 31 bits of a word: CFA offset / 8 in 17 bits, rbp offset / 8 in 9,
/// kind of rbp in 2, kind of CFA in 3. Offsets that do not fit make it kOther.
class PackedRule {
 public:
  static constexpr int kShift = 33;

  explicit PackedRule(std::uint64_t word) noexcept : word_(word) {}
  explicit PackedRule(const UnwindRule& rule) noexcept : word_(pack(rule)) {}

  std::uint64_t word() const noexcept { return word_; }
  UnwindRule::Cfa cfa() const noexcept { return UnwindRule::Cfa(word_ >> 33 & 7); }
  UnwindRule::Rbp rbp() const noexcept { return UnwindRule::Rbp(word_ >> 36 & 3); }
  std::int64_t cfa_offset() const noexcept { return std::int64_t(word_) >> 44 & ~7; }
  std::int64_t rbp_offset() const noexcept { return std::int64_t(word_ << 17) >> 52 & ~7; }

 private:
  static std::uint64_t pack(const UnwindRule& rule) noexcept {
    const auto cfa = std::uint64_t(std::int64_t{rule.cfa_offset} / 8);
    const auto rbp = std::uint64_t(std::int64_t{rule.rbp_offset} / 8);
    const PackedRule packed(cfa << 47 | (rbp & 0x1ff) << 38 | std::uint64_t(rule.rbp) << 36 |
                            std::uint64_t(rule.cfa) << 33);
    const bool fits =
        packed.cfa_offset() == rule.cfa_offset && packed.rbp_offset() == rule.rbp_offset;
    return fits ? packed.word() : std::uint64_t(UnwindRule::Cfa::kOther) << 33;
  }

  std::uint64_t word_;
};

/// The rules of the return addresses seen lately, for all threads: one word each, read and written
/// whole, so nobody ever waits. A later address may take the place of an earlier one.
class RuleCache {
 public:
  /// False if it holds no rule for this address.
  bool find(std::uintptr_t pc, PackedRule* rule) const noexcept {
    const std::uint64_t word = words_[index_of(pc)].load(std::memory_order_relaxed);
    *rule = PackedRule(word);
    return (word & kTagMask) == tag_of(pc);
  }
  void keep(std::uintptr_t pc, PackedRule rule) noexcept {
    if (tag_of(pc) <= kTagMask) {
      words_[index_of(pc)].store(rule.word() | tag_of(pc), std::memory_order_relaxed);
    }
  }
  void clear() noexcept {
    for (auto& word : words_) word.store(0, std::memory_order_relaxed);
  }

 private:
  // Index and tag together tell the 47 bits of an address. No code lies at tag 0, the first page.
  static constexpr int kIndexBits = 14;
  static constexpr std::uint64_t kTagMask = (std::uint64_t{1} << PackedRule::kShift) - 1;

  static std::size_t index_of(std::uintptr_t pc) noexcept {
    return (pc ^ pc >> kIndexBits) & ((std::size_t{1} << kIndexBits) - 1);
  }
  static std::uint64_t tag_of(std::uintptr_t pc) noexcept { return pc >> kIndexBits; }

  std::array<std::atomic<std::uint64_t>, std::size_t{1} << kIndexBits> words_{};
};

}  // namespace ddpscope
