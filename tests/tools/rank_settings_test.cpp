// Ranks that were started with different settings, as a merge tells it.
#include "checks/check_table.h"
#include "records/jsonl_writer.h"
#include "tests/support/catch.h"
#include "tests/support/rank_rings.h"
#include "tests/support/temporary_dir.h"
#include "tests/tools/run_tool.h"

namespace ddpscope::test {

TEST_CASE("a merge tells which ranks run without sync_batch_norm", "[tools]") {
  const TemporaryDir dir;
  for (std::int64_t number = 0; number < 2; ++number) {
    RunRecord run;
    run.run_id = "r1";
    run.rank = number;
    run.world_size = 2;
    run.started = "2030-01-01T00:00:00Z";
    run.settings["sync_batch_norm"] = {number == 0 ? "1" : "0", "environment"};
    run.checks = {"norm-syncbn-calls-differ"};
    auto opened = JsonlWriter::open(dir / "o", run);
    REQUIRE(opened.writer != nullptr);
    opened.writer->write_summary({.steps = 1});
    TestRank rank(dir / "o", number, 2);
    REQUIRE(rank.problem.empty());
    rank.at_step(1);
    const std::uint32_t layers = norm_call(NormPhase::kLayers, 1);
    if (number == 0) rank.call({.owner = "the list of layers", .norm_call = layers});
    rank.reduce("fc1.weight");
  }
  const auto run = run_shell("ddpscope merge " + (dir / "o"));
  CHECK(run.code == 1);
  CHECK(run.says("rank 0 runs with sync_batch_norm, rank 1 without: call 1 of the group is"));
  CHECK(run.says("fix: (safe) set sync_batch_norm on every rank, or on none"));
}

}  // namespace ddpscope::test
