#include "records/schema_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "records/json_members.h"
#include "records/jsonl_reader.h"
#include "records/line_shape.h"
#include "records/schema_table.h"
#include "records/schema_walk.h"
#include "records/utf8.h"

namespace ddpscope {
namespace {
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxProblems = 20;

class SchemaCheck {
 public:
  explicit SchemaCheck(const std::string& path) : path_(path) {}

  void rank_file(std::string_view text) {
    report_.kind = "rank file";
    std::int64_t number = 0;
    while (!text.empty() && !is_newer_) {
      const std::size_t end = text.find('\n');
      check_line(text.substr(0, end), ++number, end != std::string_view::npos);
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
  }

  void document(std::string_view text, std::string_view owner) {
    report_.kind = owner == "launch" ? "launch record" : "report";
    report_.records = 1;
    if (text.find("\"schema\"") == std::string_view::npos) {
      return tell(1, "this is no report: it names no schema");
    }
    walk(text, owner, 1);
  }

  /// Nothing where this line has a problem already.
  void tell_once(std::int64_t line, const std::string& text) {
    const auto& told = report_.problems;
    if (std::ranges::find(told, line, &ReadProblem::line) == told.end()) tell(line, text);
  }

  SchemaReport report() { return std::move(report_); }

 private:
  void tell(std::int64_t line, const std::string& text) {
    ++report_.problem_count;
    if (report_.problems.size() == kMaxProblems) return;
    report_.problems.push_back({.path = path_, .line = line, .text = text});
  }

  void walk(std::string_view text, std::string_view owner, std::int64_t line) {
    const auto end = walk_schema(text, owner, line,
                                 [this](std::int64_t at, const auto& fault) { tell(at, fault); });
    is_newer_ = end == SchemaEnd::kNewer;
  }

  void check_line(std::string_view line, std::int64_t number, bool is_whole) {
    if (line.empty()) return;
    if (std::string shape = shape_problem(line); !shape.empty()) return tell(number, shape);
    const std::string valid = is_utf8(line) ? "" : valid_json_utf8(line);
    if (!valid.empty()) line = valid;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded() && !is_whole) {
      report_.note = fmt::format("line {} is incomplete", number);
      return;
    }
    if (!json.is_object()) return tell(number, "the line is no JSON object");
    ++report_.records;
    const auto record = json.find("record");
    if (record == json.end() || !record->is_string()) return tell(number, "record is missing");
    const auto& owner = record->get_ref<const std::string&>();
    if (number == 1 && owner != "run") tell(number, "the first line is no run record");
    if (!is_owner(owner)) return;
    walk(line, owner, number);
  }

  std::string path_;
  bool is_newer_ = false;
  SchemaReport report_;
};

/// The owner in schema.def of the first record, or of the whole document.
std::string_view owner_of(const std::string& path, std::string_view text) {
  if (path.ends_with(".jsonl")) return "run";
  const std::string_view first = text.substr(0, text.find('\n'));
  if (!shape_problem(first).empty()) return "report";
  const Json json = Json::parse(first, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("record")) return "report";
  return json["record"] == "launch" ? "launch" : "run";
}

/// What a reader refuses beyond the types of members: ranks and runs that do not fit.
void add_refusal(SchemaCheck& check, const std::string& path, std::string_view text) {
  const ReadResult result = read_rank_text(path, text);
  const auto* problem = std::get_if<ReadProblem>(&result);
  if (problem != nullptr) check.tell_once(problem->line, problem->text);
}
}  // namespace

SchemaReport check_schema(const std::string& path, std::string_view text) {
  SchemaCheck check(path);
  const std::string_view owner = owner_of(path, text);
  if (owner == "run") {
    check.rank_file(text);
    add_refusal(check, path, text);
  } else {
    check.document(text, owner);
  }
  return check.report();
}

}  // namespace ddpscope
