#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "records/jsonl_writer.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"
#include "tests/tools/run_tool.h"

using namespace ddpscope;

namespace {
struct RankSample {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  bool error = false;
  std::string module_path = "layer1";
  std::vector<SuppressionRecord> suppressions = {};
  std::string nccl = "";
};

void write_rank(const std::string& dir, const RankSample& sample) {
  RunRecord run;
  run.run_id = "r1";
  run.rank = sample.rank;
  run.world_size = sample.world_size;
  run.nccl = sample.nccl;
  run.started = "2026-01-01T00:00:00Z";
  auto opened = JsonlWriter::open(dir, run);
  REQUIRE(opened.writer != nullptr);
  SummaryRecord summary;
  if (sample.error) {
    Finding finding;
    finding.id = "optim-empty";
    finding.severity = Severity::kError;
    finding.rank = sample.rank;
    finding.module_path = sample.module_path;
    finding.what = "the optimizer holds no trainable parameter";
    finding.fingerprint = "0123456789abcdef";
    opened.writer->write_finding(finding);
    summary.errors = 1;
  }
  for (const auto& line : sample.suppressions) opened.writer->write_suppression(line);
  opened.writer->write_summary(summary);
}
}  // namespace

TEST_CASE("merge of clean ranks returns 0 and writes both reports", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.rank = 0, .world_size = 2});
  write_rank(dir / "o", {.rank = 1, .world_size = 2});
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 0);
  CHECK(run.says("0 errors"));
  CHECK(std::filesystem::exists(dir / "o/report.html"));
  CHECK(std::filesystem::exists(dir / "o/report.json"));
}

TEST_CASE("merge writes over no file of a rank, and not two reports to one file", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.error = true});
  const std::string of_rank = dir / "o/rank-0.jsonl";
  const auto size = std::filesystem::file_size(of_rank);
  const auto over =
      run_shell("ddpscope merge " + (dir / "o") + " -o " + (dir / "o/../o/rank-0.jsonl"));
  CHECK(over.code == 2);
  CHECK(over.says("rank-0.jsonl has the name of a file that a run writes"));
  CHECK(std::filesystem::file_size(of_rank) == size);
  const std::string both = dir / "both";
  const auto twice = run_shell("ddpscope merge " + (dir / "o") + " -o " + both + " --json " + both);
  CHECK(twice.code == 2);
  CHECK(twice.says("both is named for two reports"));
  CHECK_FALSE(std::filesystem::exists(both));
}

TEST_CASE("a report without lists, and a finding without severity, are refused", "[tools]") {
  const TemporaryDir dir;
  const auto shown = [&dir](const std::string& text) {
    std::ofstream(dir / "r.json") << text;
    return run_shell("ddpscope show " + (dir / "r.json"));
  };
  CHECK(shown(R"({"schema":1})").code == 3);
  CHECK(shown(R"({"schema":1,"ranks":[],"findings":{}})").code == 3);
  CHECK(shown(R"({"schema":1,"ranks":[],"findings":[{"id":"optim-empty"}]})").code == 3);
  const std::string run =
      R"({"record":"run","schema":1,"run_id":"r1","rank":0,"world_size":1,"sources":{"op":"%"}})";
  const auto of_source = [&](const std::string& word) {
    std::filesystem::create_directory(dir / "s");
    std::string line = run;
    std::ofstream(dir / "s/rank-0.jsonl") << line.replace(line.find('%'), 1, word) << "\n";
    return run_shell("ddpscope show " + (dir / "s/rank-0.jsonl"));
  };
  CHECK(of_source("live").code == 0);
  CHECK(of_source("maybe").code == 3);
}

TEST_CASE("merge returns 1 for a finding at or above --fail-on", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.error = true});
  const auto run = run_shell("ddpscope merge " + (dir / "o") + " -o " + (dir / "x.html") +
                             " --json " + (dir / "x.json"));
  CHECK(run.code == 1);
  CHECK(run.says("optim-empty"));
  CHECK(run.says(dir / "x.html"));
  CHECK(std::filesystem::exists(dir / "x.json"));
  CHECK(!std::filesystem::exists(dir / "o/report.html"));
}

TEST_CASE("merge writes the formats of CI systems where they are asked for", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.error = true});
  const auto run = run_shell("cd " + dir.path() +
                             " && ddpscope merge o --sarif s --junit j --trace t && false; "
                             "grep -c '\"ruleIndex\"' s; grep -c '<failure' j; grep -c '\"ph\"' t");
  CHECK(run.says("\n1\n1\n"));
  CHECK(run_shell("cd " + dir.path() + " && grep -o '# optim-empty' s | wc -l").says("2\n"));
  const auto passing = run_shell("cd " + dir.path() + " && ddpscope merge o --junit /dev/null");
  CHECK(passing.code == 3);
  CHECK(passing.says("is not replaced"));
}

TEST_CASE("show prints annotations", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.error = true});
  const auto run = run_shell("ddpscope show --format github " + (dir / "o"));
  CHECK(run.code == 1);
  CHECK(run.text ==
        "::error title=optim-empty::rank 0 step 0 layer1: the optimizer holds no "
        "trainable parameter\n");
  CHECK(run_shell("ddpscope show --format xml " + (dir / "o")).code == 2);
}

TEST_CASE("merge returns 4 where a rank is missing", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.rank = 0, .world_size = 2});
  CHECK(run_shell("ddpscope merge " + (dir / "o")).code == 4);
}

TEST_CASE("merge names the suppressions that no rank used, and returns 0", "[tools]") {
  const TemporaryDir dir;
  const auto line = [](std::int64_t number, SuppressionState state) {
    return SuppressionRecord{"ci.txt", number, "grad-*", "2020-12-31", state};
  };
  using State = SuppressionState;
  write_rank(dir / "o",
             {.world_size = 2, .suppressions = {line(1, State::kUnused), line(2, State::kUnused)}});
  write_rank(dir / "o", {.rank = 1,
                         .world_size = 2,
                         .suppressions = {line(1, State::kUsed), line(2, State::kUnused),
                                          line(3, State::kExpired)}});
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 0);
  CHECK(!run.says("ci.txt:1:"));
  CHECK(run.says("suppression: ci.txt:2: grad-*: matched no finding\n"));
  CHECK(run.says("suppression: ci.txt:3: grad-*: expired after 2020-12-31\n"));
}

TEST_CASE("show names the suppressions of its file that nothing used", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.error = true});
  std::ofstream(dir / "s.txt") << "optim-empty  # known\ngrad-mising  # mistyped\n"
                               << "grad-*:until=2020-12-31  # past\n";
  run_shell("ddpscope merge " + (dir / "o"));
  for (const std::string place : {"o", "o/rank-0.jsonl", "o/report.json"}) {
    const auto run =
        run_shell("ddpscope show " + (dir / place) + " --suppressions " + (dir / "s.txt"));
    CHECK(run.code == 0);
    CHECK(!run.says("s.txt:1:"));
    CHECK(run.says("suppression: " + (dir / "s.txt") + ":2: grad-mising: matched no finding\n"));
    CHECK(run.says("s.txt:3: grad-*:until=2020-12-31: expired after 2020-12-31\n"));
  }
}

TEST_CASE("merge and show tell how a single rank crashed", "[tools]") {
  const TemporaryDir dir;
  RunRecord run;
  run.run_id = "r1";
  run.started = "2026-01-01T00:00:00Z";
  auto opened = JsonlWriter::open(dir / "o", run);
  opened.writer->write_progress({.step = 7, .reason = "signal", .signal = "SIGSEGV"});
  opened.writer.reset();
  for (const std::string command : {"merge ", "show "}) {
    const auto told = run_shell("ddpscope " + command + (dir / "o"));
    CHECK(told.code == 0);
    CHECK(told.says("input: rank 0 ended without a summary: SIGSEGV in forward of step 7\n"));
  }
}

TEST_CASE("a report beyond the limit of a file leaves the verdict, and no part of it", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.error = true});
  const auto run = run_shell("ulimit -f 2; ddpscope merge " + (dir / "o"));
  CHECK((run.code == 3 && run.says("ddpscope: 1 error, ") && !run.says("; report: ")));
  CHECK(run.says("ddpscope: error: " + (dir / "o/report.html") + ": File too large\n"));
  CHECK(std::distance(std::filesystem::directory_iterator(dir / "o"), {}) == 1);
}

TEST_CASE("merge returns 3 with one line for input that it cannot read", "[tools]") {
  const TemporaryDir dir;
  CHECK(run_shell("ddpscope merge " + dir.path()).code == 3);
  CHECK(run_shell("ddpscope merge /nonexistent").code == 3);
  for (const std::string text :
       {"{", "\x1b[2J\xff", "[[[[", "{\"record\":\"run\",\"schema\":99}"}) {
    std::ofstream(dir / "rank-0.jsonl") << text << '\n';
    const auto run = run_shell("ddpscope merge " + dir.path());
    CHECK(run.code == 3);
    CHECK(std::count(run.text.begin(), run.text.end(), '\n') == 1);
    CHECK(!run.says("\x1b"));
  }
}

TEST_CASE("a rank that ended within its first line is a finding, not an error", "[tools]") {
  const TemporaryDir dir;
  for (const std::string text : {"", "\n\n\n", "{\"record\":\"run\",\"sch"}) {
    write_rank(dir / "o", {.rank = 0, .world_size = 2});
    std::ofstream(dir / "o/rank-1.jsonl") << text;
    auto run = run_shell("ddpscope merge " + (dir / "o"));
    CHECK(run.code == 4);
    CHECK(run.says("rank 1 left no record in"));
    CHECK(run_shell("ddpscope show " + (dir / "o")).says("rank 1 ended before the first line"));
    std::filesystem::remove(dir / "o/rank-0.jsonl");
    CHECK(run_shell("ddpscope merge " + (dir / "o")).code == 4);
  }
}

TEST_CASE("a launch record that cannot be read is one line", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.error = true});
  std::ofstream(dir / "o/launch.json") << "nonsense\x1b[2J";
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 3);
  CHECK(run.says("launch.json: this is no launch record"));
  CHECK(run.says("optim-empty"));
}

TEST_CASE("one file that cannot be read does not hide the others", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.rank = 0, .world_size = 2, .error = true});
  std::ofstream(dir / "o/rank-1.jsonl") << "nonsense\n";
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 3);
  CHECK(run.says("optim-empty"));
}

TEST_CASE("show filters by id and rank", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.error = true});
  const auto show = "ddpscope show " + (dir / "o");
  CHECK(run_shell(show).says("the optimizer holds no trainable parameter"));
  CHECK(run_shell(show).code == 1);
  CHECK(run_shell(show + " --id 'optim-*'").code == 1);
  CHECK(run_shell(show + " --id 'grad-*'").code == 0);
  CHECK(run_shell(show + " --rank 3").code == 0);
  CHECK(run_shell(show + " --rank 3").says("there is no rank 3: the run had rank 0 alone"));
  CHECK(run_shell("ddpscope show " + (dir / "o/rank-0.jsonl") + " --json").says("\"optim-empty\""));
}

TEST_CASE("show makes hostile names harmless", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", {.error = true, .module_path = "a\x1b[2J\nb\xc2\x9bJ"});
  const auto run = run_shell("ddpscope show " + (dir / "o"));
  CHECK(!run.says("\x1b"));
  CHECK(run.says("\\n"));
  CHECK(run_shell("ddpscope show --json " + (dir / "o")).says("\\u009bJ"));
}

TEST_CASE("list and explain know every check", "[tools]") {
  CHECK(run_shell("ddpscope list").says("grad-missing"));
  CHECK(run_shell("ddpscope list --json").says("\"id\": \"grad-missing\""));
  CHECK(run_shell("ddpscope explain grad-missing").says("# grad-missing"));
  const auto unknown = run_shell("ddpscope explain grad-mising");
  CHECK(unknown.code == 2);
  CHECK(unknown.says("did you mean \"grad-missing\"?"));
}

TEST_CASE("every command has help and refuses wrong usage", "[tools]") {
  for (const std::string command : {"run", "merge", "show", "list", "explain", "compare",
                                    "suppress", "validate", "completion", "man", "version"}) {
    CHECK(run_shell("ddpscope " + command + " --help").code == 0);
    const auto wrong = run_shell("ddpscope " + command + " --no-such-option");
    CHECK(wrong.code == 2);
    CHECK(std::count(wrong.text.begin(), wrong.text.end(), '\n') == 1);
  }
  CHECK(run_shell("ddpscope").code == 2);
  CHECK(run_shell("ddpscope run --nproc 2").says("-- PROG ARGS"));
  CHECK(run_shell("ddpscope merge --fail-on bad /tmp").code == 2);
}

TEST_CASE("version names what was built and what a run had loaded", "[tools]") {
  CHECK(run_shell("ddpscope version").says("NCCL     that of the program\n"));
  const TemporaryDir dir;
  write_rank(dir / "o", {.rank = 0, .world_size = 2, .nccl = "2.27.5"});
  write_rank(dir / "o", {.rank = 1, .world_size = 2});
  const auto run = run_shell("ddpscope version " + (dir / "o"));
  CHECK(run.code == 0);
  CHECK(run.says("NCCL     that of the program; run: 2.27.5, none\n"));
  CHECK(run_shell("ddpscope version " + (dir / "o/rank-1.jsonl")).says("; run: none\n"));
  CHECK(run_shell("ddpscope version " + (dir / "none")).code == 3);
}
