#include "tools/rank_output.h"

#include <algorithm>
#include <array>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxKeptBytes = 512;

/// Neither the frames of a stack nor what follows the first line of a finding says what went wrong.
bool says_something(std::string_view line) {
  constexpr std::array<std::string_view, 7> kFollowing = {"Exception raised from ",
                                                          "frame #",
                                                          "  why: ",
                                                          "  fix: ",
                                                          "  see: ",
                                                          "  led to: ",
                                                          "checks: "};
  if (line.find_first_not_of(" \t") == std::string_view::npos) return false;
  return std::ranges::none_of(kFollowing,
                              [line](std::string_view start) { return line.starts_with(start); });
}
}  // namespace

std::string LinePrefixer::feed(std::string_view bytes) {
  std::string result;
  for (const char c : bytes) {
    const bool ends_the_same_line = c == '\n' && after_return_;
    after_return_ = c == '\r';
    if (ends_the_same_line) continue;
    if (c == '\n' || c == '\r') {
      end_line(result);
      continue;
    }
    if (part_.size() >= kMaxLineBytes) end_line(result);
    part_ += c;
  }
  return result;
}

std::string LinePrefixer::flush() {
  std::string result;
  if (holds_part()) end_line(result);
  return result;
}

void LinePrefixer::end_line(std::string& into) {
  if (says_something(part_)) last_line_ = part_.substr(0, kMaxKeptBytes);
  into += prefix_;
  into += part_;
  into += '\n';
  part_.clear();
}

}  // namespace ddpscope
