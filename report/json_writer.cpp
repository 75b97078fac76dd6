#include <nlohmann/json.hpp>

#include "records/record_json.h"
#include "records/utf8.h"
#include "report/report_writer.h"

namespace ddpscope {
namespace {

using Json = nlohmann::ordered_json;

std::string_view word(CoverageState state) {
  switch (state) {
    case CoverageState::kPassed:
      return "passed";
    case CoverageState::kFailed:
      return "failed";
    case CoverageState::kBlocked:
      return "blocked";
  }
  return "blocked";
}

Json without_kind(Json record) {
  record.erase("record");
  return record;
}

/// Adds a member that is new: operator[] would look through all that are there.
void append(Json& object, const std::string& key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(valid_utf8(key), std::move(value));
}

Json ranks_json(const MergedReport& report) {
  Json list = Json::array();
  for (const auto& rank : report.ranks) {
    Json json = without_kind(to_json(rank.run));
    json["steps"] = rank.has_summary ? Json(rank.steps) : Json(nullptr);
    json["events_dropped"] = rank.has_summary ? Json(rank.events_dropped) : Json(nullptr);
    json["summary"] = rank.has_summary;
    json["clean_exit"] = rank.clean_exit;
    json["truncated"] = rank.truncated;
    json["progress"] = Json::array();
    for (const auto& progress : rank.progress) {
      json["progress"].push_back(without_kind(to_json(progress)));
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json coverage_json(const MergedReport& report) {
  Json object = Json::object();
  for (const auto& [id, coverage] : report.coverage) {
    append(object, id,
           {{"state", word(coverage.state)},
            {"why", valid_utf8(coverage.why)},
            {"ranks", coverage.ranks}});
  }
  return object;
}

Json measured(const std::optional<double>& value) {
  return value ? json_number(*value) : Json(nullptr);
}

Json overhead_json(const Overhead& overhead) {
  Json checks = Json::object();
  for (const auto& [id, cost] : overhead.checks) {
    append(checks, id, to_json(cost));
  }
  return {{"percent", measured(overhead.percent)},
          {"percent_first", measured(overhead.percent_first)},
          {"checks", checks}};
}

Json skipped_json(const MergedReport& report) {
  Json list = Json::array();
  for (const auto& file : report.skipped_files) {
    list.push_back({{"path", valid_utf8(file.path)}, {"why", valid_utf8(file.why)}});
  }
  return list;
}

Json incidents_json(const MergedReport& report) {
  Json list = Json::array();
  for (const auto& incident : report.incidents) {
    Json members = Json::array();
    for (const auto& member : incident.members) members.push_back(valid_utf8(member));
    list.push_back({{"primary", valid_utf8(incident.primary)}, {"members", members}});
  }
  return list;
}

Json leftovers_json(const MergedReport& report) {
  Json list = Json::array();
  for (const auto& left : report.leftover_suppressions) {
    list.push_back(without_kind(to_json(left)));
  }
  return list;
}

Json summary_json(const MergedReport& report) {
  Json counts = Json::object();
  for (const auto& [id, count] : report.counts_by_id) append(counts, id, count);
  Json remarks = Json::array();
  for (const auto& remark : report.remarks) remarks.push_back(valid_utf8(remark));
  return {{"counts_by_id", counts},          {"errors", report.errors},
          {"warnings", report.warnings},     {"notes", report.notes},
          {"suppressed", report.suppressed}, {"remarks", remarks}};
}

}  // namespace

std::string render_json(const MergedReport& report, const RenderOptions&) {
  Json models = Json::array();
  for (const auto& model : report.models) models.push_back(without_kind(to_json(model)));
  Json findings = Json::array();
  for (const auto& finding : report.findings) findings.push_back(without_kind(to_json(finding)));
  Json json = {
      {"schema", report.schema},
      {"tool", "ddpscope"},
      {"tool_version", valid_utf8(report.tool_version)},
      {"run_id", valid_utf8(report.run_id)},
      {"world_size", report.world_size},
      {"ranks", ranks_json(report)},
      {"models", models},
      {"findings", findings},
      {"coverage", coverage_json(report)},
      {"overhead", overhead_json(report.overhead)},
      {"missing_ranks", report.missing_ranks},
      {"skipped_files", skipped_json(report)},
      {"primary", report.primary.empty() ? Json(nullptr) : Json(valid_utf8(report.primary))},
      {"incidents", incidents_json(report)},
      {"leftover_suppressions", leftovers_json(report)},
      {"summary", summary_json(report)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddpscope
