#include <algorithm>
#include <fstream>

#include "tests/support/temporary_dir.h"
#include "tests/tools/rank_sample.h"
#include "tests/tools/run_tool.h"

namespace ddpscope::test::validate_test {
namespace {

TEST_CASE("validate takes every file that a run and a merge write", "[tools]") {
  const TemporaryDir dir;
  const auto out = dir / "o";
  const auto ran = run_shell("ddpscope run --nproc 2 --out " + out + " -- true");
  write_findings(dir / "p", {finding_named("1111111111111111", Severity::kError)});
  run_shell("ddpscope merge " + (dir / "p"));
  const auto run = run_shell("cd " + dir.path() +
                             " && ddpscope validate o/launch.json p/rank-0.jsonl p/report.json");
  CHECK(run.code == 0);
  CHECK(run.says("o/launch.json: valid launch record\n"));
  CHECK(run.says("p/rank-0.jsonl: valid rank file of 3 records\n"));
  CHECK(run.says("p/report.json: valid report\n"));
}

TEST_CASE("validate takes a folder for the files in it", "[tools]") {
  const TemporaryDir dir;
  write_findings(dir / "p", {finding_named("1111111111111111", Severity::kError)});
  run_shell("ddpscope merge " + (dir / "p"));
  const auto valid = run_shell("ddpscope validate " + (dir / "p/"));
  CHECK(valid.code == 0);
  CHECK(valid.says("p/rank-0.jsonl: valid rank file of 3 records\n"));
  CHECK(valid.says("p/report.json: valid report\n"));
  std::ofstream(dir / "p/rank-0.jsonl") << "{";
  CHECK(run_shell("ddpscope validate " + (dir / "p")).code == 3);
  const auto empty = run_shell("mkdir " + (dir / "e") + " && ddpscope validate " + (dir / "e"));
  CHECK(empty.code == 3);
  CHECK(empty.says("e: no record of a run lies here\n"));
}

TEST_CASE("validate names line and member, and returns 3", "[tools]") {
  const TemporaryDir dir;
  write_findings(dir / "p", {finding_named("1111111111111111", Severity::kError)});
  run_shell("cd " + (dir / "p") +
            " && sed -i 's/\"severity\":\"error\"/\"severity\":\"fatal\"/' *");
  const auto run = run_shell("cd " + (dir / "p") + " && ddpscope validate rank-0.jsonl");
  CHECK(run.code == 3);
  CHECK(run.says("rank-0.jsonl:2: finding.severity is none of error, warning, note\n"));
}

TEST_CASE("validate takes bytes that are no UTF-8, as the other commands do", "[tools]") {
  const TemporaryDir dir;
  write_findings(dir / "p", {finding_named("1111111111111111", Severity::kError)});
  run_shell("cd " + (dir / "p") + " && sed -i 's/\"what\":\"/\"what\":\"\\xff/' rank-0.jsonl");
  const auto run = run_shell("cd " + (dir / "p") + " && ddpscope validate rank-0.jsonl");
  CHECK(run.code == 0);
  CHECK(run.says("rank-0.jsonl: valid rank file of 3 records\n"));
}

TEST_CASE("validate refuses a rank file that holds no record", "[tools]") {
  const TemporaryDir dir;
  for (const std::string text : {"", "\n\n\n"}) {
    std::ofstream(dir / "rank-0.jsonl") << text;
    const auto run = run_shell("ddpscope validate " + (dir / "rank-0.jsonl"));
    CHECK(run.code == 3);
    CHECK(run.says(text.empty() ? "the file is empty" : "the file holds no record"));
  }
}

TEST_CASE("validate refuses what the other commands refuse", "[tools]") {
  const TemporaryDir dir;
  write_findings(dir / "p", {finding_named("1111111111111111", Severity::kError)});
  run_shell("ddpscope merge " + (dir / "p"));
  for (const std::string edit :
       {R"(s/"schema": *1/"schema":0/)", R"(s/"world_size": *[0-9]*/"world_size":0/)"}) {
    run_shell("cd " + (dir / "p") + " && sed '" + edit + "' report.json > edited.json");
    const auto shown = run_shell("cd " + (dir / "p") + " && ddpscope show edited.json");
    const auto run = run_shell("cd " + (dir / "p") + " && ddpscope validate edited.json");
    CHECK(shown.code == 3);
    CHECK(run.code == 3);
    CHECK(run.says("edited.json:"));
  }
}

TEST_CASE("the other commands refuse what validate refuses, and no report holds it", "[tools]") {
  const TemporaryDir dir;
  const std::string at = "cd " + dir.path() + " && ddpscope ";
  Finding finding = finding_named("1111111111111111", Severity::kNote);
  finding.sites = {{"saved", {{.function = "main"}}}};
  for (const std::int64_t rank : {0, 1}) {
    auto opened = JsonlWriter::open(
        dir / "o",
        {.run_id = "r1", .rank = rank, .world_size = 2, .started = "2026-01-01T00:00:00Z"});
    finding.rank = rank;
    opened.writer->write_finding(finding);
    opened.writer->write_summary({});
  }
  CHECK(run_shell(at + "merge o && cp -r o good && cp o/rank-1.jsonl good.jsonl").code == 0);
  for (const std::string edit :
       {R"(s/"role": *"[a-z]*"/"role":"zz"/)", R"(s/"step": *0/"step":-5/)",
        R"(s/"started": *"[^"]*"/"started":"yesterday"/)",
        R"(s/"fingerprint": *"[^"]*"/"fingerprint":"xyz <b>"/)"}) {
    INFO(edit);
    run_shell(at + "version && sed '" + edit + "' good.jsonl >o/rank-1.jsonl && sed '" + edit +
              "' good/report.json >wrong.json");
    CHECK(run_shell(at + "validate o/rank-1.jsonl").code == 3);
    for (const std::string command : {"merge o", "show o", "compare o good", "show wrong.json",
                                      "compare good wrong.json", "validate wrong.json"}) {
      INFO(command);
      CHECK(run_shell(at + command).code == 3);
    }
    CHECK(run_shell(at + "validate o/report.json").code == 0);
  }
}

TEST_CASE("validate says in one line that other JSON is no report", "[tools]") {
  const TemporaryDir dir;
  const auto run = run_shell("echo '{\"traceEvents\": []}' > " + (dir / "trace.json") +
                             "; ddpscope validate " + (dir / "trace.json"));
  CHECK(run.code == 3);
  CHECK(run.text == dir / "trace.json" + ":1: this is no report: it names no schema\n");
}

TEST_CASE("validate returns 3 for newer schemas and for what is no file", "[tools]") {
  const TemporaryDir dir;
  std::ofstream(dir / "rank-0.jsonl") << "{\"record\":\"run\",\"schema\":2}\n";
  std::ofstream(dir / "r.json") << "{\"\x1b[2J\xff\":1";
  const auto newer = run_shell("ddpscope validate " + (dir / "rank-0.jsonl"));
  CHECK(newer.code == 3);
  CHECK(newer.says("run.schema is newer than 1"));
  for (const std::string name : {"r.json", "absent", "."}) {
    const auto run = run_shell("ddpscope validate " + (dir / name));
    CHECK(run.code == 3);
    CHECK(std::count(run.text.begin(), run.text.end(), '\n') == 1);
    CHECK(!run.says("\x1b"));
  }
  CHECK(run_shell("ddpscope validate").code == 2);
}

}  // namespace
}  // namespace ddpscope::test::validate_test
