#include "records/launch_file.h"

#include <fmt/format.h>

#include "records/json_members.h"
#include "records/line_shape.h"
#include "records/regular_file.h"
#include "records/report_dir.h"
#include "records/schema_walk.h"
#include "records/utf8.h"

namespace ddpscope {
namespace {

using Json = nlohmann::ordered_json;

LaunchedRank rank_from_json(const Json& json) {
  return {.rank = members::rank(json, "rank"),
          .code = members::integer(json, "code"),
          .signal = members::text(json, "signal"),
          .ended_unix_ns = members::integer(json, "ended_unix_ns"),
          .stopped = members::truth(json, "stopped", false)};
}

LaunchRecord launch_from_json(const Json& json) {
  LaunchRecord launch{.run_id = members::text(json, "run_id"), .ranks = {}};
  for (const Json& rank : members::list(json, "ranks")) {
    launch.ranks.push_back(rank_from_json(rank));
  }
  return launch;
}

}  // namespace

Json to_json(const LaunchRecord& launch) {
  Json ranks = Json::array();
  for (const LaunchedRank& rank : launch.ranks) {
    Json json = {{"rank", rank.rank}};
    if (rank.signal.empty()) json["code"] = rank.code;
    if (!rank.signal.empty()) json["signal"] = valid_utf8(rank.signal);
    json["ended_unix_ns"] = rank.ended_unix_ns;
    json["stopped"] = rank.stopped;
    ranks.push_back(std::move(json));
  }
  return {{"record", "launch"},
          {"schema", kReportSchema},
          {"run_id", valid_utf8(launch.run_id)},
          {"ranks", ranks}};
}

std::string write_launch_file(const std::string& dir, const LaunchRecord& launch) {
  return write_file_atomically(dir + "/" + kLaunchFileName, to_json(launch).dump() + "\n");
}

std::variant<LaunchRecord, ReadProblem> read_launch_file(const std::string& path) {
  std::string text;
  std::string why = read_regular(path, kMaxLineBytes, text);
  if (why.empty()) why = shape_problem(text);
  if (!why.empty()) return ReadProblem{.path = path, .text = std::move(why)};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  ReadProblem problem{.path = path, .text = "this is no launch record"};
  const auto record = json.is_object() ? json.find("record") : json.end();
  if (record == json.end() || *record != "launch") return problem;
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_number_integer() || *schema < 1) return problem;
  if (*schema > kReportSchema) {
    problem.newer_schema = true;
    problem.text = fmt::format("the schema is newer than {}, the newest that this version reads",
                               kReportSchema);
    return problem;
  }
  try {
    LaunchRecord launch = launch_from_json(json);
    const auto wrong = wrong_value(text, "launch", /*first_line=*/1);
    if (!wrong) return launch;
    problem.text = wrong->text;
    return problem;
  } catch (const std::exception& error) {
    problem.text = error.what();
    return problem;
  }
}

}  // namespace ddpscope
