#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "records/jsonl_reader.h"
#include "records/jsonl_writer.h"
#include "records/record_json.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::jsonl_round_trip_test {
namespace {

RankFile read(const std::string& path) {
  const ReadResult result = read_rank_file(path);
  if (const auto* problem = std::get_if<ReadProblem>(&result)) FAIL(problem->text);
  return std::get<RankFile>(result);
}

TEST_CASE("what is written reads back equal", "[records]") {
  const TemporaryDir dir;
  auto opened = JsonlWriter::open(dir / "a/out", sample_run(3, 4));
  REQUIRE(opened.error == "");
  JsonlWriter& writer = *opened.writer;
  Finding finding = sample_finding();
  finding.caused_by = "abc";
  finding.ranks = {1, 3};
  CHECK(writer.write_model(sample_model()));
  CHECK(writer.write_step({.step = 1, .wall_ms = 2.5, .overhead_us = 3}));
  CHECK(writer.write_finding(finding));
  CHECK(writer.write_progress({.step = 4, .phase = Phase::kReduce, .reason = "stall"}));
  const SuppressionRecord suppression = {.path = "ci\xff.txt",
                                         .line = 3,
                                         .text = "grad-*",
                                         .until = "2029-12-31",
                                         .state = SuppressionState::kExpired};
  CHECK(writer.write_suppression(suppression));
  CHECK(writer.write_summary(sample_summary()));
  CHECK(writer.sync());

  const RankFile file = read(dir / "a/out/rank-3.jsonl");
  CHECK(to_json(file.run) == to_json(sample_run(3, 4)));
  REQUIRE(file.models.size() == 1);
  CHECK(to_json(file.models[0]) == to_json(sample_model()));
  REQUIRE(file.findings.size() == 1);
  CHECK(to_json(file.findings[0]) == to_json(finding));
  CHECK(file.findings[0].facts[1].key == "saved_version");
  CHECK(std::get<std::int64_t>(file.findings[0].facts[1].value) == 3);
  CHECK(std::get<double>(file.findings[0].facts[2].value) == 0.5);
  const Frame& frame = file.findings[0].sites.at(0).frames.at(0);
  CHECK(frame.build_id == "c0de");
  CHECK(frame.library);
  CHECK_FALSE(file.findings[0].sites[0].frames.at(1).library);
  CHECK(file.progress.at(0).phase == Phase::kReduce);
  REQUIRE(file.suppressions.size() == 1);
  CHECK(to_json(file.suppressions[0]) == to_json(suppression));
  CHECK(file.suppressions[0].state == SuppressionState::kExpired);
  REQUIRE(file.summary);
  CHECK(to_json(*file.summary) == to_json(sample_summary()));
  CHECK_FALSE(file.truncated);
  CHECK(writer.bytes_written() ==
        static_cast<std::int64_t>(std::filesystem::file_size(writer.path())));
}

TEST_CASE("numbers that JSON lacks survive as words", "[records]") {
  Finding finding = sample_finding();
  const double inf = std::numeric_limits<double>::infinity();
  finding.facts = {{"a", std::nan("")}, {"b", inf}, {"c", std::vector<FactScalar>{-inf, 1.0}}};
  const auto json = to_json(finding);
  CHECK(json["facts"].dump() == R"({"a":"nan","b":"inf","c":["-inf",1.0]})");
  const Finding back = finding_from_json(json);
  CHECK(std::isnan(std::get<double>(back.facts[0].value)));
  CHECK(std::get<double>(back.facts[1].value) == inf);
}

TEST_CASE("bytes that are not UTF-8 become text", "[records]") {
  Finding finding = sample_finding();
  finding.module_path = "a\xff\xc3(\xe2\x82\xac";
  CHECK(to_json(finding)["module_path"] == "a\\xff\\xc3(\xe2\x82\xac");
}

TEST_CASE("a finding names its page and the cause that is absent", "[records]") {
  const auto json = to_json(sample_finding());
  CHECK(json["doc"] == "docs/checks/norm-buffer-overwritten.md");
  CHECK(json["caused_by"].is_null());
  CHECK(json["fixes"][0]["applicability"] == "needs-decision");
}

TEST_CASE("a run that found its device reads back with it", "[records]") {
  const TemporaryDir dir;
  RunRecord run = sample_run(0, 1);
  auto opened = JsonlWriter::open(dir / "out", run);
  CHECK(!to_json(run).contains("device_index"));
  run.device = "GPU-5f1c";
  run.device_index = 1;
  run.visible_devices = 4;
  run.device_mask = "CUDA_VISIBLE_DEVICES";
  CHECK(opened.writer->write_run(run));
  const RankFile file = read(opened.writer->path());
  CHECK(to_json(file.run) == to_json(run));
  CHECK(file.run.device_index == 1);
  CHECK(file.run.visible_devices == 4);
  CHECK(file.run.device_mask == "CUDA_VISIBLE_DEVICES");
}

TEST_CASE("a finding too long for a line is shortened, not lost", "[records]") {
  const TemporaryDir dir;
  auto opened = JsonlWriter::open(dir / "out", sample_run(0, 1));
  Finding finding = sample_finding();
  finding.why = std::string(3 << 20, 'x');
  CHECK(opened.writer->write_finding(finding));
  CHECK(read(opened.writer->path()).findings.at(0).what == finding.what);
}

}  // namespace
}  // namespace ddpscope::test::jsonl_round_trip_test
