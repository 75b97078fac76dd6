#include "report/escape.h"

#include <fmt/format.h>

#include <iterator>

#include "records/utf8.h"

namespace ddpscope {
namespace {

bool is_bidi_or_invisible(char32_t value) {
  const bool is_no_character = (value & 0xFFFE) == 0xFFFE;
  return is_no_character || value == 0x061C || value == 0x200E || value == 0x200F ||
         value == 0xFEFF || (value >= 0x202A && value <= 0x202E) ||
         (value >= 0x2066 && value <= 0x2069) || value == 0x2028 || value == 0x2029;
}

}  // namespace

std::string escape_terminal(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  const auto out = std::back_inserter(result);
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    const auto bytes = text.substr(i, point.bytes);
    i += point.bytes;
    if (!point.valid) {
      fmt::format_to(out, "\\x{:02x}", static_cast<unsigned char>(bytes.front()));
    } else if (point.value == '\n') {
      result += "\\n";
    } else if (point.value == '\t') {
      result += ' ';
    } else if (point.value < 0x20 || point.value == 0x7F) {
      fmt::format_to(out, "\\x{:02x}", static_cast<unsigned>(point.value));
    } else if ((point.value >= 0x80 && point.value < 0xA0) || is_bidi_or_invisible(point.value)) {
      fmt::format_to(out, "\\u{{{:x}}}", static_cast<unsigned>(point.value));
    } else {
      result += bytes;
    }
  }
  return result;
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char letter : escape_terminal(text)) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

// What HTML takes and XML does not is shown as text by then.
std::string escape_xml(std::string_view text) { return escape_html(text); }

std::string escape_uri(std::string_view path) {
  constexpr std::string_view kPlain = "-._~/";
  std::string result;
  for (const char letter : path) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') ||
                          kPlain.find(letter) != std::string_view::npos;
    if (is_plain) {
      result += letter;
    } else {
      fmt::format_to(std::back_inserter(result), "%{:02X}", static_cast<unsigned char>(letter));
    }
  }
  return result;
}

}  // namespace ddpscope
