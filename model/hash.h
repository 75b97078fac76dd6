#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace ddpscope {

/// FNV-1a with 64 bits, over bytes of the caller's choice.
class Hash {
 public:
  /// A byte of its own; a whole word at once is weaker, and enough to tell that something changed.
  constexpr void fold(std::uint64_t value) { value_ = (value_ ^ value) * 0x100000001b3; }

  constexpr void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) fold(number >> shift & 0xff);
  }
  constexpr void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  constexpr void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (const char c : text) fold(static_cast<unsigned char>(c));
  }

  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace ddpscope
