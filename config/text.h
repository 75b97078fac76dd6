#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddpscope {

inline constexpr std::size_t kMaxShownBytes = 64;

/// `text` without blanks and line ends around it.
std::string_view trim(std::string_view text);
/// `text` with small letters, of ASCII.
std::string lower(std::string_view text);
/// `text` as printable ASCII: other bytes are escaped, and with `quotes` quotes and backslashes.
std::string escaped(std::string_view text, bool quotes = true);
/// `escaped` in quotes, cut after kMaxShownBytes with the full length behind it.
std::string quoted(std::string_view text);
bool has_control_byte(std::string_view text);
/// The candidate, in small letters, that a typing error or the case of letters away is `text`, or
/// "".
std::string_view nearest(std::string_view text, const std::vector<std::string_view>& candidates);
/// Cuts at every `separator` that has no backslash before it; `\<separator>` becomes the separator.
std::vector<std::string> split_escaped(std::string_view text, char separator);
/// The lines of `text`, without their ends.
std::vector<std::string_view> split_lines(std::string_view text);
/// Cuts a comment: a `#` at the begin or after a blank.
struct CommentedLine {
  std::string_view content;
  std::optional<std::string_view> comment;
};
CommentedLine cut_comment(std::string_view line);

/// A whole regular file of at most `max_bytes`, or one phrase that says why not.
struct FileText {
  std::string text;
  std::string failure;
};
FileText read_text_file(const std::string& path, std::size_t max_bytes);

}  // namespace ddpscope
