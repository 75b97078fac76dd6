#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddpscope {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 1;
  bool valid = true;  ///< false: one byte that is not part of UTF-8
};

/// The code point at `position`; strict: no overlong forms, surrogates or values above U+10FFFF.
CodePoint decode_utf8(std::string_view text, std::size_t position);

bool is_utf8(std::string_view text);
/// Every byte that is not part of valid UTF-8 becomes the text `\xNN`.
std::string valid_utf8(std::string_view text);
/// The same within JSON, whose strings write a backslash twice.
std::string valid_json_utf8(std::string_view json);

}  // namespace ddpscope
