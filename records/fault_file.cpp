#include "records/fault_file.h"

#include "records/json_members.h"
#include "records/line_shape.h"
#include "records/regular_file.h"
#include "records/report_dir.h"

namespace ddpscope {
namespace {
using Json = nlohmann::ordered_json;

std::optional<std::int64_t> step_of(const Json& json, const char* key) {
  if (members::member(json, key) == nullptr) return std::nullopt;
  return members::integer(json, key);
}

FaultRecord fault_from_json(const Json& json) {
  return {.fault = members::text(json, "fault"),
          .steps = members::integer(json, "steps"),
          .step_ms = members::number(json, "step_ms"),
          .planted_step = step_of(json, "planted_step"),
          .found_steps = step_of(json, "found_steps"),
          .timed_out = members::truth(json, "timed_out", false),
          .ended = members::truth(json, "ended", false)};
}
}  // namespace

std::string write_fault_file(const std::string& dir, const FaultRecord& record) {
  Json json = {{"record", "fault"},
               {"schema", kReportSchema},
               {"fault", record.fault},
               {"steps", record.steps},
               {"step_ms", record.step_ms}};
  if (record.planted_step) json["planted_step"] = *record.planted_step;
  if (record.found_steps) json["found_steps"] = *record.found_steps;
  json["timed_out"] = record.timed_out;
  json["ended"] = record.ended;
  return write_file_atomically(dir + "/" + kFaultFileName, json.dump() + "\n");
}

std::variant<FaultRecord, ReadProblem> read_fault_file(const std::string& path) {
  std::string text;
  std::string why = read_regular(path, kMaxLineBytes, text);
  if (why.empty()) why = shape_problem(text);
  if (!why.empty()) return ReadProblem{.path = path, .text = std::move(why)};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    if (members::text(json, "record") == "fault") return fault_from_json(json);
    return ReadProblem{.path = path, .text = "this is no fault record"};
  } catch (const std::exception& error) {
    return ReadProblem{.path = path, .text = error.what()};
  }
}

}  // namespace ddpscope
