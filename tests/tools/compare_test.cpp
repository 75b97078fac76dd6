#include <filesystem>
#include <fstream>

#include "tests/support/temporary_dir.h"
#include "tests/tools/rank_sample.h"
#include "tests/tools/run_tool.h"

namespace ddpscope::test::compare_test {
namespace {

/// `a` and `b`, of which the first finding of `a` is gone, one stays and one of `severity` is new.
void write_two(const TemporaryDir& dir, Severity severity) {
  const Finding stays = finding_named("2222222222222222", Severity::kError);
  write_findings(dir / "a", {finding_named("1111111111111111", Severity::kError), stays});
  write_findings(dir / "b", {stays, finding_named("3333333333333333", severity)});
}

std::string compare_in(const TemporaryDir& dir, const std::string& rest = "") {
  return "cd " + dir.path() + " && ddpscope compare " + (rest.empty() ? "a b" : rest);
}

TEST_CASE("compare tells new, fixed and persisting findings apart", "[tools]") {
  const TemporaryDir dir;
  write_two(dir, Severity::kError);
  const auto run = run_shell(compare_in(dir));
  CHECK(run.code == 1);
  CHECK(run.says("fixed:\nrank 0 step 0 layer-1111111111111111: error: "));
  CHECK(run.says("persisting:\nrank 0 step 0 layer-2222222222222222: error: "));
  CHECK(run.says("new:\nrank 0 step 0 layer-3333333333333333: error: "));
  CHECK(run.says("ddpscope: 1 new, 1 fixed, 1 persisting\n"));
  const auto json = run_shell(compare_in(dir, "--json a b"));
  CHECK(json.code == 1);
  CHECK(json.says("\"new\": [\n    {\n      \"id\": \"optim-empty\""));
}

TEST_CASE("compare returns 1 for new findings at or above --fail-on alone", "[tools]") {
  const TemporaryDir dir;
  write_two(dir, Severity::kWarning);
  CHECK(run_shell(compare_in(dir)).code == 0);
  CHECK(run_shell(compare_in(dir, "--fail-on warning a b")).code == 1);
  CHECK(run_shell(compare_in(dir, "--fail-on note a a")).code == 0);
}

TEST_CASE("compare reads saved reports", "[tools]") {
  const TemporaryDir dir;
  write_two(dir, Severity::kError);
  run_shell("cd " + dir.path() +
            " && ddpscope merge a --json a.json -o a.html; "
            "ddpscope merge b --json b.json -o b.html");
  const auto of_folders = run_shell(compare_in(dir));
  const auto of_reports = run_shell(compare_in(dir, "a.json b.json"));
  CHECK(of_reports.code == 1);
  CHECK(of_reports.text == of_folders.text);
  CHECK(run_shell(compare_in(dir, "a.json b/rank-0.jsonl")).text == of_folders.text);
}

TEST_CASE("a suppressed finding is not new", "[tools]") {
  const TemporaryDir dir;
  write_two(dir, Severity::kError);
  std::ofstream(dir / "ci.txt") << "3333333333333333  # known\n";
  for (const std::string after : {"b", "b.json"}) {
    run_shell("cd " + dir.path() + " && ddpscope merge b --json b.json");
    const auto run = run_shell(compare_in(dir, "--suppressions ci.txt a " + after));
    CHECK(run.code == 0);
    CHECK(run.says("ddpscope: 0 new, 1 fixed, 1 persisting\n"));
  }
}

TEST_CASE("a finding that both have suppressed persists", "[tools]") {
  const TemporaryDir dir;
  write_two(dir, Severity::kNote);
  std::ofstream(dir / "ci.txt") << "2222222222222222  # known\n";
  const auto run = run_shell(compare_in(dir, "--suppressions ci.txt a b"));
  CHECK(run.code == 0);
  CHECK(run.says("persisting:\nrank 0 step 0 layer-2222222222222222: error: "));
  CHECK(run.says(" [optim-empty] (suppressed: known)\n"));
  CHECK(run.says("ddpscope: 1 new, 1 fixed, 1 persisting\n"));
}

TEST_CASE("compare returns 3 where a side cannot be read, 4 where ranks are missing", "[tools]") {
  const TemporaryDir dir;
  write_two(dir, Severity::kNote);
  std::ofstream(dir / "c.json") << "{\"schema\":1,\"findings\":[{\"id\":3}]}";
  std::ofstream(dir / "d.json") << "{\"schema\":99}";
  std::ofstream(dir / "e.json") << std::string(100, '[');
  const auto broken = run_shell(compare_in(dir, "a c.json"));
  CHECK(broken.code == 3);
  CHECK(broken.says("ddpscope: error: c.json: findings[0]: \"id\" is no string\n"));
  CHECK(run_shell(compare_in(dir, "d.json a")).says("the schema is newer than 1"));
  CHECK(run_shell(compare_in(dir, "e.json a")).says("nests deeper than 64"));
  CHECK(run_shell(compare_in(dir, "absent a")).code == 3);
  CHECK(run_shell(compare_in(dir, "a")).code == 2);
  auto opened = JsonlWriter::open(dir / "f", {.run_id = "r", .world_size = 2});
  opened.writer->write_summary({});
  CHECK(run_shell(compare_in(dir, "a f")).code == 4);
}

TEST_CASE("show prints a saved report as it prints its folder", "[tools]") {
  const TemporaryDir dir;
  write_two(dir, Severity::kNote);
  run_shell("ddpscope merge " + (dir / "a") + " --json " + (dir / "a.json"));
  const auto of_folder = run_shell("ddpscope show " + (dir / "a"));
  const auto of_report = run_shell("ddpscope show " + (dir / "a.json"));
  CHECK(of_report.code == 1);
  CHECK(of_report.text == of_folder.text);
}

}  // namespace
}  // namespace ddpscope::test::compare_test
