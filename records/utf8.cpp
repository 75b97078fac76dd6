#include "records/utf8.h"

#include <array>
#include <cstdint>

namespace ddpscope {
namespace {

constexpr CodePoint kInvalid = {.value = 0, .bytes = 1, .valid = false};

unsigned char byte_at(std::string_view text, std::size_t position) {
  return static_cast<unsigned char>(text[position]);
}

std::size_t length_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

bool is_scalar(char32_t value, std::size_t bytes) {
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return value >= kSmallest[bytes] && value <= 0x10FFFF && !surrogate;
}

/// Each byte that is not part of valid UTF-8 as `mark` and two digits.
std::string with_hex_bytes(std::string_view text, std::string_view mark) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    if (point.valid) {
      result.append(text.substr(i, point.bytes));
    } else {
      const unsigned char byte = byte_at(text, i);
      result += mark;
      result += {kHex[byte >> 4], kHex[byte & 15]};
    }
    i += point.bytes;
  }
  return result;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t position) {
  const unsigned char lead = byte_at(text, position);
  const std::size_t bytes = length_of(lead);
  if (bytes == 0 || position + bytes > text.size()) return kInvalid;
  if (bytes == 1) return {.value = lead};

  char32_t value = lead & (0x7F >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const unsigned char next = byte_at(text, position + i);
    if ((next & 0xC0) != 0x80) return kInvalid;
    value = (value << 6) | (next & 0x3F);
  }
  if (!is_scalar(value, bytes)) return kInvalid;
  return {.value = value, .bytes = bytes};
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    if (!point.valid) return false;
    i += point.bytes;
  }
  return true;
}

std::string valid_utf8(std::string_view text) { return with_hex_bytes(text, "\\x"); }
std::string valid_json_utf8(std::string_view json) { return with_hex_bytes(json, "\\\\x"); }

}  // namespace ddpscope
