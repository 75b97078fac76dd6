#include "report/report_reader.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "records/json_members.h"
#include "records/line_shape.h"
#include "records/schema_walk.h"

namespace ddpscope {
namespace {
using Json = nlohmann::ordered_json;
using Event = Json::parse_event_t;

constexpr std::size_t kMaxReadFindings = 100'000;

/// Takes ranks, models and findings one by one, so that a tree of each alone is built.
class ReportBuilder {
 public:
  /// False drops `json` from the tree.
  bool take(int depth, Event event, Json& json) {
    const auto level = static_cast<std::size_t>(depth);
    if (level >= kMaxDepth) throw FormatError(fmt::format("it nests deeper than {}", kMaxDepth));
    if (event == Event::object_start) members_[level + 1] = 0;
    if (event == Event::key) take_key(level, json);
    if (depth != 2 || event != Event::object_end) return true;
    try {
      return !take_element(json);
    } catch (const FormatError& error) {
      throw FormatError(fmt::format("{}[{}]: {}", list_, index_, error.what()));
    }
  }

  MergedReport finish(const Json& json) {
    report_.schema = members::integer(json, "schema");
    if (report_.schema < 1) throw FormatError("this is no report: it names no schema");
    for (const char* list : {"ranks", "findings"}) {
      if (members::member(json, list) == nullptr) {
        throw FormatError(fmt::format("this is no report: it lists no {}", list));
      }
      members::list(json, list);
    }
    report_.tool_version = members::text(json, "tool_version");
    report_.run_id = members::text(json, "run_id");
    report_.world_size = members::integer(json, "world_size", 1);
    for (const auto& [id, coverage] : members::map(json, "coverage").items()) {
      report_.coverage[id] = coverage_from_json(coverage);
    }
    for (const Json& rank : members::list(json, "missing_ranks")) {
      if (!members::fits(rank)) members::refuse("missing_ranks", "list of ranks");
      report_.missing_ranks.push_back(rank.get<std::int64_t>());
    }
    report_.remarks = members::texts(members::map(json, "summary"), "remarks");
    judge_again(report_);
    return std::move(report_);
  }

 private:
  void take_key(std::size_t level, const Json& key) {
    if (++members_[level] > kMaxMembers) {
      throw FormatError(fmt::format("an object has more than {} members", kMaxMembers));
    }
    if (level != 1) return;
    list_ = key.get<std::string>();
    index_ = -1;
  }

  bool take_element(const Json& json) {
    ++index_;
    if (list_ == "findings") {
      if (report_.findings.size() == kMaxReadFindings) throw FormatError("too many findings");
      report_.findings.push_back(finding_from_json(json));
    } else if (list_ == "ranks") {
      report_.ranks.push_back(rank_from_report(json));
    } else if (list_ == "models") {
      report_.models.push_back(model_from_json(json));
    } else {
      return false;
    }
    return true;
  }

  static RankState rank_from_report(const Json& json) {
    RankState state{.run = run_from_json(json),
                    .has_summary = members::truth(json, "summary", false),
                    .clean_exit = members::truth(json, "clean_exit", false),
                    .truncated = members::truth(json, "truncated", false),
                    .steps = members::integer(json, "steps"),
                    .events_dropped = members::integer(json, "events_dropped"),
                    .progress = {}};
    for (const Json& progress : members::list(json, "progress")) {
      state.progress.push_back(progress_from_json(progress));
    }
    return state;
  }

  static Coverage coverage_from_json(const Json& json) {
    constexpr std::array<std::string_view, 3> kStates = {"passed", "failed", "blocked"};
    const std::string state = members::text(json, "state");
    Coverage coverage{.state = CoverageState::kBlocked, .why = members::text(json, "why")};
    for (std::size_t i = 0; i < kStates.size(); ++i) {
      if (kStates[i] == state) coverage.state = static_cast<CoverageState>(i);
    }
    return coverage;
  }

  MergedReport report_;
  std::string list_;
  std::int64_t index_ = -1;
  std::array<std::size_t, kMaxDepth + 2> members_ = {};
};

std::int64_t newer_schema_in(const Json& json) {
  const auto schema = json.find("schema");
  const bool is_number = schema != json.end() && schema->is_number_integer();
  return is_number && *schema > kReportSchema ? schema->get<std::int64_t>() : 0;
}
}  // namespace

std::variant<MergedReport, ReadProblem> read_report_text(const std::string& path,
                                                         std::string_view text) {
  ReadProblem problem{.path = path, .text = "this is no report.json"};
  try {
    ReportBuilder builder;
    const Json json = Json::parse(
        text,
        [&builder](int depth, Event event, Json& value) {
          return builder.take(depth, event, value);
        },
        /*allow_exceptions=*/false);
    if (!json.is_object()) return problem;
    problem.newer_schema = newer_schema_in(json) != 0;
    if (!problem.newer_schema) {
      MergedReport report = builder.finish(json);
      const auto wrong = wrong_value(text, "report", /*first_line=*/1);
      if (!wrong) return report;
      problem.line = wrong->line;
      problem.text = wrong->text;
      return problem;
    }
    problem.text = fmt::format("the schema is newer than {}, the newest that this version reads",
                               kReportSchema);
  } catch (const std::exception& error) {
    problem.text = error.what();
  }
  return problem;
}

}  // namespace ddpscope
