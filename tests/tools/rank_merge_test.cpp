// What a merge finds in the rings of several ranks, from the files alone.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "checks/check_table.h"
#include "records/jsonl_writer.h"
#include "tests/support/catch.h"
#include "tests/support/rank_rings.h"
#include "tests/support/temporary_dir.h"
#include "tests/tools/run_tool.h"

namespace ddpscope::test {
namespace {
RunRecord run_of(std::int64_t rank, std::int64_t world_size) {
  RunRecord run;
  run.run_id = "r1";
  run.rank = rank;
  run.world_size = world_size;
  run.host = "elsewhere";
  run.started = "2030-01-01T00:00:00Z";
  run.settings["hang_after_s"] = {"2", "environment"};
  for (const CheckRow& row : check_table()) {
    if (is_over_ranks(row)) run.checks.emplace_back(row.id);
  }
  return run;
}

/// A rank file; without a summary the rank was killed.
void write_rank(const std::string& dir, const RunRecord& run, bool ended = true) {
  auto opened = JsonlWriter::open(dir, run);
  REQUIRE(opened.writer != nullptr);
  if (ended) opened.writer->write_summary({.steps = 4});
}

/// Four steps of three reductions on `ranks` ranks; `change` writes what is odd.
using Change = std::function<void(TestRank& rank, std::int64_t number, std::int32_t step)>;
void write_run(const std::string& dir, std::int64_t ranks, const Change& change,
               bool ended = true) {
  for (std::int64_t number = 0; number < ranks; ++number) {
    write_rank(dir, run_of(number, ranks), ended);
    TestRank rank(dir, number, ranks);
    REQUIRE(rank.problem.empty());
    for (std::int32_t step = 1; step <= 4; ++step) {
      rank.at_step(step);
      change(rank, number, step);
    }
  }
}

void reduce_all(TestRank& rank) {
  for (const char* parameter : {"fc2.weight", "fc1.bias", "fc1.weight"}) rank.reduce(parameter);
}

void write_clean(const std::string& dir, std::int64_t ranks) {
  write_run(dir, ranks, [](TestRank& rank, std::int64_t, std::int32_t step) {
    reduce_all(rank);
    rank.digest({.step = step, .structure = 1, .parameters = 2});
  });
}

/// Rank 1 swaps two reductions in step 3.
void write_swapped(const std::string& dir) {
  write_run(dir, 2, [](TestRank& rank, std::int64_t number, std::int32_t step) {
    if (number == 0 || step != 3) return reduce_all(rank);
    rank.reduce("fc1.bias");
    rank.reduce("fc2.weight");
    rank.reduce("fc1.weight");
  });
}

/// Rank 0 skips a reduction in step 4; all hang until they are killed.
void write_hanging(const std::string& dir) {
  const auto change = [](TestRank& rank, std::int64_t number, std::int32_t step) {
    if (step < 4) return reduce_all(rank);
    rank.reduce("fc2.weight");
    if (number != 0) rank.call({.owner = "fc1.bias.grad", .state = CallState::kIssued});
    rank.pass_ms(30'000);
    rank.beat(number == 0 ? "evaluate" : "fc1");
  };
  write_run(dir, 3, change, /*ended=*/false);
}
}  // namespace

TEST_CASE("a merge of ranks that agree is clean and tells that they were compared", "[tools]") {
  const TemporaryDir dir;
  write_clean(dir / "o", 4);
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 0);
  CHECK(run.says("0 errors, 0 warnings"));
  CHECK_FALSE(run.says("blocked: collective-mismatch"));
  CHECK_FALSE(run.says("input:"));
}

TEST_CASE("a merge finds the first call that one rank issued in another order", "[tools]") {
  const TemporaryDir dir;
  write_swapped(dir / "o");
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 1);
  CHECK(run.says("rank 1 step 3"));
  CHECK(run.says("[collective-mismatch]"));
  CHECK(
      run.says("call 7 is all_reduce float32[64] of fc2.weight.grad on rank 0 and all_reduce "
               "float32[64] of fc1.bias.grad on rank 1"));
  CHECK(run.says("primary collective-mismatch in fc2;"));
}

TEST_CASE("a merge finds from the files of killed ranks who never came", "[tools]") {
  const TemporaryDir dir;
  write_hanging(dir / "o");
  const auto run = run_shell("ddpscope show " + (dir / "o") + " --id 'collective-*'");
  CHECK(run.code == 1);
  CHECK(
      run.says("ranks 1-2 waited 30 s in all_reduce 11 of fc1.bias.grad; rank 0 last issued 10 "
               "and was in evaluate of step 4 (alive) [collective-hang]"));
}

TEST_CASE("the last call of a rank that failed first is told", "[tools]") {
  const TemporaryDir dir;
  write_clean(dir / "o", 2);
  auto opened = JsonlWriter::open(dir / "p", run_of(1, 2));
  opened.writer->write_progress({.step = 4, .reason = "exception", .what = "no memory"});
  opened.writer.reset();
  std::filesystem::rename(dir / "p/rank-1.jsonl", dir / "o/rank-1.jsonl");
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.says("its last call was all_reduce 12 of fc1.weight.grad"));
}

TEST_CASE("findings over all ranks are suppressed by a file that the merge is given", "[tools]") {
  const TemporaryDir dir;
  write_swapped(dir / "o");
  std::ofstream(dir / "s.txt") << "collective-mismatch:module=fc2  # known\n"
                               << "grad-missing  # never seen\n";
  const auto run =
      run_shell("ddpscope merge " + (dir / "o") + " --suppressions " + (dir / "s.txt"));
  CHECK(run.code == 0);
  CHECK(run.says("suppressed: 1"));
  CHECK(run.says("s.txt:2: grad-missing: matched no finding"));
  CHECK_FALSE(run.says("s.txt:1:"));
  const auto kept =
      run_shell("grep -c '\"suppression_reason\": *\"known\"' " + (dir / "o/report.json"));
  CHECK(kept.code == 0);
  CHECK(run_shell("ddpscope show " + (dir / "o") + " --suppressions " + (dir / "s.txt")).code == 0);

  std::ofstream(dir / "s.txt") << "nonsense without a reason\n";
  CHECK(run_shell("ddpscope merge " + (dir / "o") + " --suppressions " + (dir / "s.txt")).code ==
        2);
  CHECK(run_shell("ddpscope merge " + (dir / "o") + " --suppressions /nonexistent").code == 2);
}

TEST_CASE("a suppressions file that a record names is not opened", "[tools]") {
  const TemporaryDir dir;
  write_swapped(dir / "o");
  RunRecord hostile = run_of(0, 2);
  hostile.settings["suppressions"] = {dir / "s.txt", "environment"};
  std::ofstream(dir / "s.txt") << "collective-mismatch  # hidden\n";
  write_rank(dir / "p", hostile);
  std::filesystem::rename(dir / "p/rank-0.jsonl", dir / "o/rank-0.jsonl");
  CHECK(run_shell("ddpscope merge " + (dir / "o")).code == 1);
}

TEST_CASE("run gives the suppressions of its environment to the merge", "[tools]") {
  const TemporaryDir dir;
  write_swapped(dir / "made");
  std::ofstream(dir / "s.txt") << "collective-mismatch  # known\n";
  // The program leaves the files that its ranks would have written, with the run's id.
  const std::string program =
      "-- sh -c 'for r in 0 1; do [ $RANK = $r ] && sed s/r1/$DDPSCOPE_RUN_ID/ " + (dir / "made") +
      "/rank-$r.jsonl > " + (dir / "o") + "/rank-$r.jsonl; done; true'";
  const std::string command = "ddpscope run --nproc 2 --out " + (dir / "o") + " " + program;
  CHECK(run_shell("DDPSCOPE=suppressions=" + (dir / "s.txt") + " " + command)
            .says("s.txt:1: collective-mismatch: matched no finding"));
  std::ofstream(dir / "s.txt") << "nonsense\n";
  const auto refused = run_shell("DDPSCOPE=suppressions=" + (dir / "s.txt") + " " + command);
  CHECK(refused.code == 2);
  CHECK(refused.says("no reason"));
}

TEST_CASE("without rings the checks that need them are blocked with the reason", "[tools]") {
  const TemporaryDir dir;
  for (std::int64_t rank = 0; rank < 2; ++rank) write_rank(dir / "o", run_of(rank, 2));
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 0);
  CHECK(run.says("collective-mismatch"));
  CHECK(run.says(": 0 of 2 ranks left a ring"));
  CHECK_FALSE(run.says("input:"));
}

TEST_CASE("a check over all ranks that was named and could not run makes a run incomplete",
          "[tools]") {
  const TemporaryDir dir;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    RunRecord run = run_of(rank, 2);
    run.settings["checks"] = {"*,collective-hang", "environment"};
    write_rank(dir / "o", run);
  }
  CHECK(run_shell("ddpscope merge " + (dir / "o")).code == 4);
}

TEST_CASE("a single rank has nothing to be compared with", "[tools]") {
  const TemporaryDir dir;
  write_clean(dir / "o", 1);
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 0);
  CHECK(run.says(": one rank"));
}

TEST_CASE("a ring that is no good costs its rank and one remark", "[tools]") {
  const TemporaryDir dir;
  write_run(dir / "o", 4, [](TestRank& rank, std::int64_t number, std::int32_t step) {
    rank.reduce(number == 3 && step == 2 ? "odd" : "fc1");
  });
  const std::string ring = dir / "o/rank-1.ring";
  const std::string saved = dir / "saved";
  std::filesystem::rename(ring, saved);
  SECTION("of another version") {
    std::filesystem::copy_file(saved, ring);
    std::fstream file(ring, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(16).put(99);
  }
  SECTION("of another run") { const TestRank other(dir / "o", 1, 4, "r2"); }
  SECTION("of another rank") { std::filesystem::copy_file(dir / "o/rank-0.ring", ring); }
  SECTION("cut off within its head") {
    std::filesystem::copy_file(saved, ring);
    std::filesystem::resize_file(ring, 100);
  }
  SECTION("cut off behind its head") {
    std::filesystem::copy_file(saved, ring);
    std::filesystem::resize_file(ring, std::filesystem::file_size(saved) - 1);
  }
  SECTION("of random bytes") {
    std::mt19937 random(7);
    std::ofstream file(ring, std::ios::binary);
    for (int i = 0; i < 100'000; ++i) file.put(static_cast<char>(random()));
  }
  SECTION("a link") { std::filesystem::create_symlink(saved, ring); }
  SECTION("a pipe") { REQUIRE(::mkfifo(ring.c_str(), 0600) == 0); }
  SECTION("empty") { std::ofstream(ring).flush(); }
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 1);
  CHECK(run.says("[collective-mismatch]"));
  CHECK(run.says("rank-1.ring: "));
  CHECK(run.says("rank 1 left no usable ring; steps and calls of 3 of 4 ranks are compared"));
  CHECK(std::filesystem::exists(dir / "o/report.html"));
  CHECK(std::filesystem::exists(dir / "o/report.json"));
}

TEST_CASE("a rank that waits for one without records is found in its own ring", "[tools]") {
  const TemporaryDir dir;
  write_rank(dir / "o", run_of(0, 2), /*ended=*/false);
  TestRank rank(dir / "o", 0, 2);
  for (std::int32_t step = 1; step <= 4; ++step) {
    rank.at_step(step);
    reduce_all(rank);
  }
  rank.call({.owner = "fc1.bias.grad", .state = CallState::kIssued});
  rank.pass_ms(30'000);
  rank.beat("fc1");
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 1);
  CHECK(run.says("rank 0 waited 30 s in all_reduce 13 of fc1.bias.grad; rank 1 left no records"));
  CHECK(run.says("1 of 2 ranks left a ring"));
}

TEST_CASE("checks over ranks did not pass where a ring is cut off or absent", "[tools]") {
  const TemporaryDir dir;
  for (std::int64_t number = 0; number < 2; ++number) {
    RunRecord run = run_of(number, 2);
    run.checks.emplace_back("grad-not-reduced");
    write_rank(dir / "o", run);
    TestRank rank(dir / "o", number, 2);
    reduce_all(rank);
    rank.digest({.step = 1, .structure = 1, .parameters = 2});
  }
  const std::string ring = dir / "o/rank-1.ring";
  SECTION("cut off") { std::filesystem::resize_file(ring, 40'000); }
  SECTION("absent") { std::filesystem::remove(ring); }
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 0);
  CHECK(
      run.says("input: rank 1 left no usable ring; steps and calls of 1 of 2 ranks are compared"));
  for (const char* id : {"grad-not-reduced", "collective-mismatch", "rank-parameters-differ"}) {
    CHECK(run.says(id));
  }
  CHECK(run.says(": 1 of 2 ranks left a ring"));
}

}  // namespace ddpscope::test
