#include <nlohmann/json.hpp>

#include "records/jsonl_writer.h"
#include "records/line_shape.h"
#include "records/record_json.h"
#include "records/schema_check.h"
#include "records/schema_formats.h"
#include "records/schema_table.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"

namespace ddpscope::test::schema_test {
namespace {
using Json = nlohmann::ordered_json;

std::string run_line() { return to_json(sample_run(1, 2)).dump() + "\n"; }

std::vector<std::string> faults(const std::string& text, const std::string& path = "x.jsonl") {
  std::vector<std::string> result;
  for (const auto& problem : check_schema(path, text).problems) {
    result.push_back(std::to_string(problem.line) + ": " + problem.text);
  }
  return result;
}

/// The faults of a rank file whose second line is a finding with one member changed.
std::vector<std::string> faults_of(const std::string& pointer, const Json& value) {
  Json finding = to_json(sample_finding());
  finding[Json::json_pointer(pointer)] = value;
  return faults(run_line() + finding.dump() + "\n");
}

TEST_CASE("every record that is written fits the schema", "[records]") {
  std::string text = run_line();
  StepRecord step{.step = 1, .wall_ms = 2, .overhead_us = 3, .host_reads = 1, .time_unix_ns = 9};
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.gradient_norm = 2;
  SummaryRecord bare;
  Finding finding = sample_finding();
  finding.ranks = {0, 1};
  const SuppressionRecord line{"ci.txt", 2, "grad-*", "", SuppressionState::kUsed};
  ProgressRecord progress{.reason = "signal", .time_unix_ns = 1, .signal = "SIGTERM", .code = 3};
  progress.exception = "E";
  for (const Json& json : {to_json(sample_model()), to_json(step), to_json(StepRecord{}),
                           to_json(finding), to_json(Finding{.id = "a-b", .fingerprint = "0"}),
                           to_json(progress), to_json(ProgressRecord{}), to_json(line),
                           to_json(StepDigest{}), to_json(StepDigest{.skipped_steps = -1}),
                           to_json(RunRecord{.run_id = "run-a", .rank = 1, .world_size = 2}),
                           to_json(bare), to_json(sample_summary())}) {
    text += json.dump() + "\n";
  }
  const SchemaReport report = check_schema("rank-1.jsonl", text);
  CHECK(report.kind == "rank file");
  CHECK(report.records == 14);
  CHECK(faults(text, "rank-1.jsonl") == std::vector<std::string>());
}

TEST_CASE("a fault names its line and its member", "[records]") {
  using Faults = std::vector<std::string>;
  CHECK(faults_of("/severity", "fatal") ==
        Faults{"2: finding.severity is none of error, warning, note"});
  CHECK(faults_of("/sites/0/frames/2/line", "12") ==
        Faults{"2: finding.sites[0].frames[2].line is no integer of 0 or more"});
  CHECK(faults_of("/sites/1/state", "lost") ==
        Faults{"2: finding.sites[1].state is none of complete, evicted, unsymbolized"});
  CHECK(faults_of("/facts/cause", Json::object()) == Faults{"2: finding.facts.cause is no fact"});
  CHECK(faults_of("/fixes", 3) == Faults{"2: finding.fixes is no list"});
  CHECK(faults_of("/rank", -1).at(0) == "2: finding.rank is no rank from 0 to 2^20");
  CHECK(faults_of("/caused_by", 1).at(0) ==
        "2: finding.caused_by is no text of digits from 0 to f or null");
  CHECK(faults_of("/suppressed", nullptr) == Faults{"2: finding.suppressed is no boolean"});
  Json finding = to_json(sample_finding());
  finding.erase("why");
  finding["fixes"][1].erase("applicability");
  CHECK(faults(run_line() + finding.dump() + "\n") ==
        Faults{"2: finding.fixes[1].applicability is missing", "2: finding.why is missing"});
}

TEST_CASE("times, counts and fingerprints have their form", "[records]") {
  using Faults = std::vector<std::string>;
  CHECK(faults_of("/fingerprint", "zz") ==
        Faults{"2: finding.fingerprint is no text of digits from 0 to f"});
  CHECK(faults_of("/fingerprint", "").size() == 1);
  CHECK(faults_of("/first_step", -1) == Faults{"2: finding.first_step is no integer of 0 or more"});
  Json run = to_json(sample_run(1, 2));
  const auto faults_at = [&run](std::string_view started) {
    run["started"] = started;
    return faults(run.dump() + "\n");
  };
  for (const char* time :
       {"2026-02-28T23:59:60Z", "2024-02-29t00:00:00.125z", "2026-01-31 08:30:00+00:00"}) {
    CHECK(faults_at(time).empty());
  }
  for (const char* time : {"", "yesterday", "2026-02-29T00:00:00Z", "2026-1-31T00:00:00Z",
                           "2026-01-31T24:00:00Z", "2026-01-31T00:00:00", "2026-01-31T00:00:00.Z",
                           "2026-01-31T00:00:00+02:00", "2026-01-31T00:00:00Z later"}) {
    CHECK(faults_at(time) == Faults{"1: run.started is no time of RFC 3339 in UTC"});
  }
}

TEST_CASE("a rank is one of its run", "[records]") {
  using Faults = std::vector<std::string>;
  CHECK(faults(to_json(sample_run(2, 2)).dump() + "\n") ==
        Faults{"1: run.rank is 2 of 2 ranks, counted from 0"});
  CHECK(faults(to_json(sample_run(0, 0)).dump() + "\n").at(0) ==
        "1: run.world_size is no integer of 1 or more");
}

TEST_CASE("what a later version adds is no fault", "[records]") {
  Json finding = to_json(sample_finding());
  finding["color"] = {{"deep", {1, nullptr, Json::object()}}};
  finding["sites"][0]["frames"][0]["column"] = 3;
  const std::string more = R"({"record":"weather","degrees":[]})";
  CHECK(faults(run_line() + finding.dump() + "\n" + more + "\n").empty());
}

TEST_CASE("a newer schema ends the check of a file", "[records]") {
  const auto found = faults(R"({"record":"run","schema":2})" + std::string("\n{\n"));
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "1: run.schema is newer than 1, the newest that this version reads");
  CHECK(faults("{\n\"schema\": 7\n}", "report.json").at(0) ==
        "2: report.schema is newer than 1, the newest that this version reads");
}

TEST_CASE("lines of one document are counted", "[records]") {
  const auto found =
      faults("{\n \"schema\": \"1\",\n \"tool\": 1,\n\n \"run_id\": true\n}", "r.json");
  REQUIRE(found.size() > 3);
  CHECK(found[0] == "2: report.schema is no 64-bit integer");
  CHECK(found[1] == "3: report.tool is no text");
  CHECK(found[2] == "5: report.run_id is no text");
}

TEST_CASE("hostile text is refused with few lines", "[records]") {
  CHECK(faults("", "x.jsonl").size() == 1);
  CHECK(faults("[1]\n").at(0) == "1: the line is no JSON object");
  CHECK(faults(run_line() + "nonsense\n" + run_line()).at(0) == "2: the line is no JSON object");
  CHECK(faults(std::string(200, '['), "r.json").size() == 1);
  CHECK(faults(std::string(200, '{'), "r.json").size() == 1);
  std::string many = run_line();
  for (int i = 0; i < 500; ++i) many += "{}\n";
  const SchemaReport report = check_schema("x.jsonl", many);
  CHECK(report.problems.size() == 20);
  CHECK(report.problem_count >= 500);
  CHECK(faults(run_line() + std::string(kMaxLineBytes + 1, ' ') + "\n").size() == 1);
  CHECK(faults(run_line() + to_json(sample_run(0, 2)).dump() + "\n").at(0) ==
        "2: a second run record is of another run or rank");
  CHECK(faults(run_line(), "rank-0.jsonl").at(0) ==
        "1: the record is of rank 1, the file is named for rank 0");
}

TEST_CASE("an incomplete last line is a note", "[records]") {
  const SchemaReport report = check_schema("x.jsonl", run_line() + R"({"record":"fin)");
  CHECK(report.problems.empty());
  CHECK(report.note == "line 2 is incomplete");
}

TEST_CASE("each type of the schema is known", "[records]") {
  for (const SchemaMember& row : schema_members()) {
    std::string_view type = row.type;
    take_nullable(type);
    if (type.starts_with('[') || type.starts_with('{')) type = type.substr(1, type.size() - 2);
    const bool is_plain = type == "text" || type == "integer" || type == "number" ||
                          type == "truth" || type == "fact" || find_format(type) != nullptr;
    INFO(row.owner << '.' << row.name);
    CHECK((is_plain || is_owner(type) || !words_of_type(type).empty()));
  }
}

}  // namespace
}  // namespace ddpscope::test::schema_test
