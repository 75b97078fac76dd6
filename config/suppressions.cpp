#include "config/suppressions.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "config/glob.h"
#include "config/setting_types.h"
#include "config/text.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxListBytes = 1 << 20;
constexpr std::size_t kMaxListProblems = 20;
constexpr std::size_t kMaxShownText = 256;
constexpr std::string_view kForm =
    "ID[:model=GLOB][:module=GLOB][:subject=GLOB][:op=GLOB][:until=YYYY-MM-DD]  # reason";

bool is_id(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-*?";
  return !text.empty() && text.find_first_not_of(kLetters) == std::string_view::npos;
}

bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  const auto year = parse_integer(text.substr(0, 4));
  const auto month = parse_integer(text.substr(5, 2));
  const auto day = parse_integer(text.substr(8, 2));
  if (!year || !month || !day) return false;
  return std::chrono::year_month_day(std::chrono::year(static_cast<int>(*year)),
                                     std::chrono::month(static_cast<unsigned>(*month)),
                                     std::chrono::day(static_cast<unsigned>(*day)))
      .ok();
}

std::optional<std::string>* field_of(std::string_view key, Suppression& entry) {
  if (key == "model") return &entry.model;
  if (key == "module") return &entry.module;
  if (key == "subject") return &entry.subject;
  if (key == "op") return &entry.op;
  return nullptr;
}

// Takes `key=value` into `entry`; says what is wrong, or nothing.
std::string take_field(std::string_view part, Suppression& entry) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return quoted(part) + " is not key=value";
  const std::string_view key = trim(part.substr(0, equals));
  const std::string_view value = trim(part.substr(equals + 1));
  if (key == "until") {
    if (!is_date(value)) return "until=" + quoted(value) + " is not a date YYYY-MM-DD";
    if (!entry.until.empty()) return "until is given twice";
    entry.until = value;
    return {};
  }
  std::optional<std::string>* field = field_of(key, entry);
  if (field == nullptr) {
    const std::string_view near = nearest(key, {"model", "module", "subject", "op", "until"});
    const std::string hint = near.empty() ? "" : "; did you mean " + quoted(near) + "?";
    return "unknown field " + quoted(key) + hint;
  }
  if (field->has_value()) return std::string(key) + " is given twice";
  *field = std::string(value);
  return {};
}

// As it stands in the file, but for what is no printable ASCII.
std::string shown(std::string_view text) {
  const std::string_view first = text.substr(0, kMaxShownText);
  return escaped(first, /*quotes=*/false) + (text.size() > kMaxShownText ? "..." : "");
}

std::string take_line(const CommentedLine& line, Suppression& entry) {
  if (!line.comment || line.comment->empty()) return "no reason; the form is " + std::string(kForm);
  entry.reason = *line.comment;
  entry.text = shown(line.content);
  const std::vector<std::string> parts = split_escaped(line.content, ':');
  entry.id = trim(parts.front());
  if (!is_id(entry.id)) return quoted(entry.id) + " is not a check id or fingerprint";
  for (std::size_t i = 1; i < parts.size(); ++i) {
    std::string problem = take_field(parts[i], entry);
    if (!problem.empty()) return problem;
  }
  return {};
}

bool field_matches(const std::optional<std::string>& glob, const std::string& text) {
  return !glob || glob_match(*glob, text);
}

std::string place(const std::string& path, std::int64_t line) {
  return escaped(path) + ":" + std::to_string(line) + ": ";
}
}  // namespace

SuppressionFile parse_suppressions(std::string_view text, std::string_view path) {
  SuppressionFile file{.path = std::string(path), .entries = {}, .problems = {}};
  std::int64_t number = 0;
  for (const std::string_view raw : split_lines(text)) {
    ++number;
    const CommentedLine line = cut_comment(raw);
    if (line.content.empty()) continue;
    Suppression entry;
    entry.line = number;
    const std::string problem = take_line(line, entry);
    if (problem.empty()) {
      file.entries.push_back(std::move(entry));
    } else if (file.problems.size() < kMaxListProblems) {
      file.problems.push_back(place(file.path, number) + problem);
    }
  }
  return file;
}

SuppressionFile read_suppressions(const std::string& path, const std::string& place) {
  const FileText text = read_text_file(path, kMaxListBytes);
  if (text.failure.empty()) return parse_suppressions(text.text, path);
  const std::string problem = (place.empty() ? "" : escaped(place) + ": ") +
                              "suppressions=" + quoted(path) +
                              " is not a readable file: " + escaped(text.failure);
  return {.path = path, .entries = {}, .problems = {problem}};
}

bool matches(const Suppression& suppression, const Finding& finding) {
  const bool names_it = glob_match(suppression.id, finding.id) ||
                        (!finding.fingerprint.empty() && suppression.id == finding.fingerprint);
  return names_it && field_matches(suppression.model, finding.model) &&
         field_matches(suppression.module, finding.module_path) &&
         field_matches(suppression.subject, finding.subject) &&
         field_matches(suppression.op, finding.op);
}

bool expired(const Suppression& suppression, std::string_view today) {
  return !suppression.until.empty() && suppression.until < today;
}

std::string today_utc() {
  const auto now = std::chrono::system_clock::now();
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(now));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02u", static_cast<int>(day.year()),
                static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  return text.data();
}

SuppressionList::SuppressionList(SuppressionFile file, std::string_view today)
    : file_(std::move(file)), states_(file_.entries.size()) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (expired(file_.entries[i], today)) states_[i] = SuppressionState::kExpired;
  }
}

const Suppression* SuppressionList::find(const Finding& finding) {
  const Suppression* first = nullptr;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Suppression& entry = file_.entries[i];
    if (states_[i] == SuppressionState::kExpired || !matches(entry, finding)) continue;
    states_[i] = SuppressionState::kUsed;
    if (first == nullptr) first = &entry;
  }
  return first;
}

void SuppressionList::decide(Finding& finding) {
  const Suppression* const found = find(finding);
  finding.suppressed = found != nullptr;
  finding.suppression_reason = found == nullptr ? "" : found->reason;
}

void SuppressionList::decide_unless_suppressed(Finding& finding) {
  if (!finding.suppressed) return decide(finding);
  find(finding);
}

std::vector<SuppressionRecord> SuppressionList::records() const {
  std::vector<SuppressionRecord> records;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Suppression& entry = file_.entries[i];
    records.push_back({.path = file_.path,
                       .line = entry.line,
                       .text = entry.text,
                       .until = entry.until,
                       .state = states_[i]});
  }
  return records;
}

}  // namespace ddpscope
