#include "config/text.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <system_error>

namespace ddpscope {
namespace {
constexpr std::size_t kLongestCompared = 64;

// Typing errors that make one from the other: a swap of neighbours is one.
std::size_t typing_errors(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before_previous(right.size() + 1);
  std::vector<std::size_t> previous(right.size() + 1);
  std::vector<std::size_t> current(right.size() + 1);
  std::iota(previous.begin(), previous.end(), 0);
  for (std::size_t i = 1; i <= left.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t changed = previous[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      current[j] = std::min({changed, previous[j] + 1, current[j - 1] + 1});
      const bool swapped =
          i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
      if (swapped) current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
    before_previous.swap(previous);
    previous.swap(current);
  }
  return previous.back();
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
}  // namespace

std::string_view trim(std::string_view text) {
  constexpr std::string_view kAround = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kAround);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kAround) - begin + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return out;
}

std::string escaped(std::string_view text, bool quotes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_control(c) || byte > 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      if (quotes && (c == '"' || c == '\\')) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  out += escaped(text.substr(0, kMaxShownBytes));
  if (text.size() <= kMaxShownBytes) return out + "\"";
  return out + "...\" (" + std::to_string(text.size()) + " bytes)";
}

bool has_control_byte(std::string_view text) { return std::ranges::any_of(text, is_control); }

std::string_view nearest(std::string_view text, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t kLeastBegin = 3;
  if (text.size() > kLongestCompared) return {};
  const std::string plain = lower(text);
  std::size_t best = std::max<std::size_t>(2, text.size() / 3) + 1;
  std::string_view found;
  for (const std::string_view candidate : candidates) {
    const std::size_t errors = typing_errors(plain, candidate.substr(0, kLongestCompared));
    // All letters changed is another word, not a typing error.
    if (errors < best && errors < std::max(text.size(), candidate.size()) / 2 + 1) {
      best = errors;
      found = candidate;
    }
  }
  if (!found.empty() || plain.size() < kLeastBegin) return found;
  const auto begins = [&plain](std::string_view candidate) { return candidate.starts_with(plain); };
  const auto longer = std::ranges::find_if(candidates, begins);
  return longer == candidates.end() ? found : *longer;
}

std::vector<std::string> split_escaped(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == separator) {
      parts.back() += text[++i];
    } else if (text[i] == separator) {
      parts.emplace_back();
    } else {
      parts.back() += text[i];
    }
  }
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

CommentedLine cut_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || is_blank(line[i - 1]))) {
      return {trim(line.substr(0, i)), trim(line.substr(i + 1))};
    }
  }
  return {trim(line), std::nullopt};
}

FileText read_text_file(const std::string& path, std::size_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return {{}, "no such file"};
  if (!std::filesystem::exists(status)) return {{}, error.message()};
  if (!std::filesystem::is_regular_file(status)) return {{}, "not a regular file"};
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return {{}, "no permission to read it"};
  std::string text(max_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return {{}, "reading failed"};
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > max_bytes) return {{}, "larger than " + std::to_string(max_bytes) + " bytes"};
  return {std::move(text), {}};
}

}  // namespace ddpscope
