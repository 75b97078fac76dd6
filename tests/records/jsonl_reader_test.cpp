#include "records/jsonl_reader.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "records/record_json.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::jsonl_reader_test {
namespace {

const std::string kName = "out/rank-2.jsonl";

std::string run_line(std::int64_t rank = 2) { return to_json(sample_run(rank, 4)).dump() + "\n"; }
std::string finding_line(const Finding& finding) { return to_json(finding).dump() + "\n"; }

ReadProblem problem(const std::string& text, const std::string& name = kName) {
  const ReadResult result = read_rank_text(name, text);
  REQUIRE(std::holds_alternative<ReadProblem>(result));
  return std::get<ReadProblem>(result);
}
RankFile file(const std::string& text) {
  const ReadResult result = read_rank_text(kName, text);
  REQUIRE(std::holds_alternative<RankFile>(result));
  return std::get<RankFile>(result);
}

TEST_CASE("a later finding with the same fingerprint replaces the earlier", "[records]") {
  Finding grown = sample_finding();
  grown.occurrences = 9;
  const RankFile read = file(run_line() + finding_line(sample_finding()) + finding_line(grown));
  REQUIRE(read.findings.size() == 1);
  CHECK(read.findings[0].occurrences == 9);
}

TEST_CASE("unknown records and members are accepted", "[records]") {
  const std::string later =
      R"({"record":"finding","id":"x-y","severity":"note","color":[1,{"a":null}]})";
  const RankFile read = file(run_line() +
                             R"({"record":"digest","step":1})"
                             "\n" +
                             later + "\n");
  CHECK(read.findings.at(0).id == "x-y");
}

TEST_CASE("an incomplete last line is noted, and the rest is read", "[records]") {
  const RankFile read =
      file(run_line() + finding_line(sample_finding()) + R"({"record":"finding","id":"x)");
  CHECK(read.truncated);
  CHECK(read.findings.size() == 1);
  CHECK(read.notes.at(0) == "line 3 is incomplete");
}

TEST_CASE("steps are read from plain lines and from odd ones alike", "[records]") {
  const std::string plain = R"({"record":"step","step":7,"losses":[{"step":99}]})";
  CHECK(file(run_line() + plain + "\n").last_step == 7);
  CHECK(file(run_line() + R"({"step":8,"record":"step"})" + "\n" + plain + "\n").last_step == 8);
  CHECK(file(run_line() + R"({"record":"step","step":8,"step":9})" + "\n").last_step == 9);
  CHECK(file(run_line() + R"({"record":"step","step":8,"record":"later"})" + "\n").last_step == 0);
  CHECK(file(run_line() + R"({"record":"step","step":null})" + "\n").last_step == 0);
  CHECK(file(run_line() + plain.substr(0, 30)).truncated);
  for (const std::string odd : {"1.5", "18446744073709551615", "\"7\"", "[7]", "{}", "true"}) {
    CHECK(problem(run_line() + R"({"record":"step","step":)" + odd + "}\n").text ==
          "\"step\" is no 64-bit integer");
  }
  CHECK(problem(run_line() + plain + "}\n").text == "the line is no JSON object");
}

TEST_CASE("what a step took and when it ended is read", "[records]") {
  StepRecord step{.step = 7, .wall_ms = 2.5, .overhead_us = 3, .time_unix_ns = 99};
  step.loss = 0.25;
  step.gradient_norm = 4.5;
  step.collectives = 5;
  step.seq = 35;
  const std::string plain = to_json(step).dump();
  const std::string odd =
      R"({"step":7,"record":"step","wall_ms":2.5,)"
      R"("seq":35,"time_unix_ns":99,"loss":0.25,"grad_norm":4.5,"collectives":5})";
  for (const std::string& line : {plain, odd}) {
    const RankFile read = file(run_line() + line + "\n");
    REQUIRE(read.steps.size() == 1);
    CHECK(read.steps[0].step == 7);
    CHECK(read.steps[0].wall_ms == 2.5);
    CHECK(read.steps[0].time_unix_ns == 99);
    CHECK(read.steps[0].loss == 0.25);
    CHECK(read.steps[0].collectives == 5);
    CHECK(read.steps[0].seq == 35);
    CHECK(read.steps[0].gradient_norm == 4.5);
  }
  CHECK(problem(run_line() + R"({"record":"step","step":1,"wall_ms":{}})" + "\n").text ==
        "\"wall_ms\" is no number");
}

TEST_CASE("of many steps a part spread over the run is kept", "[records]") {
  std::string text = run_line();
  for (int i = 1; i <= 10'000; ++i) {
    text += R"({"record":"step","step":)" + std::to_string(i) + "}\n";
  }
  const RankFile read = file(text);
  CHECK(read.last_step == 10'000);
  CHECK(read.steps.size() < 2048);
  CHECK(read.steps.size() > 1000);
  CHECK(read.steps.front().step == 1);
  CHECK(read.steps.back().step > 9'980);
  CHECK(read.steps[1].step - read.steps[0].step == read.steps[9].step - read.steps[8].step);
}

TEST_CASE("a hostile file is refused with one sentence", "[records]") {
  CHECK(problem("").text == "the file is empty");
  CHECK(problem("").cut_short);
  CHECK(problem("{\"record\":\"ru").cut_short);
  CHECK_FALSE(problem("{\"record\":\"ru\n").cut_short);
  CHECK(problem("{\"record\":\"ru").text == "the line is no JSON object");
  CHECK(problem(std::string("\x7f"
                            "ELF\x02\x01\0\0\xff\xfe\n",
                            11))
            .line == 1);
  CHECK(problem(run_line() + "[1,2]\n").line == 2);
  CHECK(problem(finding_line(sample_finding())).text == "the first line is no run record");
  CHECK(problem(run_line() + std::string(2 << 20, 'x')).text == "the line is longer than 1 MiB");
  CHECK(problem(run_line() + std::string(200'000, '[')).text == "the line nests deeper than 64");
  CHECK(problem(run_line() + R"({"record":"finding","id":7})"
                             "\n")
            .text == "\"id\" is no string");
  CHECK(problem(run_line() + R"({"record":"finding"})"
                             "\n")
            .text == "a finding has no \"id\"");
  CHECK(problem(run_line() + R"({"record":"finding","id":"x","step":1e999})"
                             "\n")
            .line == 2);
}

TEST_CASE("a file without a record was ended before its first line", "[records]") {
  for (const std::string text : {"\n", "\n\n\n"}) {
    CHECK(problem(text).text == "the file holds no record");
    CHECK(problem(text).cut_short);
  }
  CHECK(problem("\n{\"record\":\"ru").cut_short);
  CHECK(problem("\n" + finding_line(sample_finding())).text == "the first line is no run record");
  CHECK(file("\n" + run_line()).run.rank == 2);
}

TEST_CASE("a byte that is not UTF-8 is read as the text that a writer makes of it", "[records]") {
  const std::string line = R"({"record":"progress","reason":"exit","what":")";
  const RankFile read = file(run_line() + line + "\xff\xc3\xbc\\n\x9b\"}\n");
  REQUIRE(read.progress.size() == 1);
  CHECK(read.progress[0].what == "\\xff\xc3\xbc\n\\x9b");
  CHECK(problem(run_line() + "\xff\n").text == "the line is no JSON object");
}

TEST_CASE("an object of too many members is refused before it is parsed", "[records]") {
  std::string line = R"({"record":"digest")";
  for (int i = 0; i < 2000; ++i) line += fmt::format(",\"{}\":1", i);
  CHECK(problem(run_line() + line + "}\n").text == "an object has more than 1024 members");
}

TEST_CASE("the rank is the same in name and record, and in range", "[records]") {
  CHECK(problem(run_line(3)).text == "the record is of rank 3, the file is named for rank 2");
  CHECK(problem(run_line(-1)).text == "\"rank\" is no rank from 0 to 2^20");
  CHECK(problem(run_line((1 << 20) + 1), "x").text == "\"rank\" is no rank from 0 to 2^20");
}

TEST_CASE("a value that the schema does not have is refused", "[records]") {
  const auto text_of = [](nlohmann::ordered_json json, const std::string& pointer,
                          const nlohmann::ordered_json& value) {
    json[nlohmann::ordered_json::json_pointer(pointer)] = value;
    const ReadProblem found = problem(run_line() + json.dump() + "\n");
    CHECK(found.line == 2);
    return found.text;
  };
  const auto finding = to_json(sample_finding());
  CHECK(text_of(finding, "/step", -5) == "finding.step is no integer of 0 or more");
  CHECK(text_of(finding, "/fingerprint", "xyz <b>") ==
        "finding.fingerprint is no text of digits from 0 to f");
  CHECK(text_of(finding, "/sites/0/role", "zz") ==
        "finding.sites[0].role is none of saved, changed, used, created, registered, called");
  CHECK(text_of(finding, "/sites/0/role", nullptr) == "a site has no \"role\"");
  CHECK(text_of(to_json(sample_run(2, 4)), "/started", "yesterday") ==
        "run.started is no time of RFC 3339 in UTC");
  CHECK(text_of(to_json(sample_run(2, 4)), "/world_size", 2) ==
        "run.rank is 2 of 2 ranks, counted from 0");
  CHECK(text_of(to_json(StepRecord{}), "/step", -1) == "step.step is no integer of 0 or more");
  auto nulls = finding;
  nulls["step"] = nulls["suppressed"] = nulls["model"] = nullptr;
  CHECK(file(run_line() + nulls.dump() + "\n").findings.size() == 1);
}

TEST_CASE("a world that no machine has is refused", "[records]") {
  RunRecord run = sample_run(2, std::int64_t{1} << 60);
  CHECK(problem(to_json(run).dump() + "\n").text == "\"world_size\" is no count of ranks");
}

TEST_CASE("a newer schema is told apart from a broken file", "[records]") {
  RunRecord run = sample_run(2, 4);
  run.schema = kReportSchema + 1;
  CHECK(problem(to_json(run).dump() + "\n").newer_schema);
  CHECK_FALSE(problem("junk\n").newer_schema);
}

TEST_CASE("links, folders and absent files are refused", "[records]") {
  const TemporaryDir dir;
  std::filesystem::create_symlink("/etc/passwd", dir / "rank-0.jsonl");
  const auto text_of = [](const std::string& path) {
    return std::get<ReadProblem>(read_rank_file(path)).text;
  };
  CHECK(text_of(dir / "rank-0.jsonl") == "the file is a symbolic link");
  CHECK(text_of(dir.path()) == "this is no regular file");
  CHECK(text_of(dir / "rank-1.jsonl") == "No such file or directory");
}

}  // namespace
}  // namespace ddpscope::test::jsonl_reader_test
