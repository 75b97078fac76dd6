#include "tools/rank_output.h"

#include <algorithm>
#include <array>

#include "checks/check_table.h"
#include "records/schema_table.h"

namespace ddpscope {
namespace {
using std::string_view;

constexpr std::size_t kMaxKeptBytes = 512;

bool holds(string_view line, string_view part) { return line.find(part) != string_view::npos; }

/// Neither the frames of a stack nor what follows the first line of a finding says what went wrong.
bool says_something(string_view line) {
  constexpr auto kFollowing = std::to_array<string_view>(
      {"Exception raised from ", "frame #", "  why: ", "  fix: ", "  see: ", "  led to: "});
  if (line.find_first_not_of(" \t") == string_view::npos) return false;
  return std::ranges::none_of(kFollowing,
                              [line](string_view start) { return line.starts_with(start); });
}

/// `rank 0 step 4 head: warning: 2 parameters received no gradient [grad-missing]`
bool is_finding(string_view line) {
  const auto id = line.rfind(" [");
  if (!line.starts_with("rank") || !line.ends_with(']') || id == string_view::npos) return false;
  const bool has_severity =
      holds(line, ": error: ") || holds(line, ": warning: ") || holds(line, ": note: ");
  line.remove_suffix(1);
  return has_severity && holds(line, " step ") && find_check(line.substr(id + 2)) != nullptr;
}

/// What a verdict says before and after its finding.
bool is_of_verdict(string_view line) {
  return (line.starts_with("checks: ") && line.ends_with(" blocked")) ||
         (line.starts_with("overhead: ") && holds(line, " of step time")) ||
         (line.starts_with("suppressed: ") &&
          line.find_first_not_of("0123456789", 12) == line.npos);
}

/// `  saved:   Encoder::forward  src/model.cpp:88`
bool is_labelled(string_view line) {
  constexpr auto kLabels = std::to_array<string_view>(
      {"why", "fix", "see", "led to", "blocked", "input", "suppression"});
  const auto end = line.find(':');
  if (!line.starts_with("  ") || end == string_view::npos) return false;
  const string_view label = line.substr(2, end - 2);
  const auto roles = words_of_type("site_role");
  return std::ranges::find(kLabels, label) != kLabels.end() ||
         std::ranges::find(roles, label) != roles.end();
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

/// Whether ddpscope itself wrote the line. A label counts only after such a line: the program may
/// indent what it says, too.
bool LinePrefixer::take_own(std::string_view line) {
  const bool is_told = kept_ == LastLine::kOfProgram && line.starts_with("ddpscope: ");
  after_own_ =
      is_told || is_finding(line) || is_of_verdict(line) || (after_own_ && is_labelled(line));
  return after_own_;
}

void LinePrefixer::end_line(std::string& into) {
  const bool is_said = says_something(part_);
  if (is_said && !take_own(part_)) last_line_ = part_.substr(0, kMaxKeptBytes);
  into += prefix_;
  into += part_;
  into += '\n';
  part_.clear();
}

}  // namespace ddpscope
