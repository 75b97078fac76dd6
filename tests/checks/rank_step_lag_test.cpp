#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::rank_step_lag_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "rank-step-lag";

/// Rank 3 has ended its loop after 100 backwards; the others wait in the next one.
RanksComparedEvent shorter_epoch() {
  RanksComparedEvent run = four_ranks();
  for (RankCounts& counts : run.cohorts[0].counts) {
    if (counts.rank == 3) continue;
    counts.step = 101;
    ++counts.backwards;
    ++counts.forwards;
  }
  run.frontiers = {{.group = 5, .seq = 1001, .waiting = {0, 1, 2}, .behind = {3}}};
  run.stands[3].ended = true;
  for (RankStand& stand : run.stands) {
    stand.beat_unix_ns = stand.rank == 1 ? 0 : 1;
    stand.phase = Phase::kReduce;
  }
  for (int rank = 0; rank < 3; ++rank) run.endings.ranks[rank].kind = EndKind::kKilled;
  return run;
}

/// The same, but rank 3 went on to another collective.
RanksComparedEvent other_collective() {
  RanksComparedEvent run = shorter_epoch();
  run.frontiers.clear();
  run.stands[3].ended = false;
  run.endings.ranks[3].kind = EndKind::kException;
  const auto called_at = [](CollectiveKind kind, std::int64_t line) {
    const Frame helper{.function = "sum", .file = "src/ranks.h", .line = 20};
    return ComparedCall{
        .record = {.elements = 8, .kind = kind},
        .dtype = "float32",
        .site = {.role = "called", .frames = {helper, {.file = "src/train.cpp", .line = line}}}};
  };
  const CallSide odd{.call = called_at(CollectiveKind::kBroadcast, 90), .ranks = {3}};
  const CallSide usual{.call = called_at(CollectiveKind::kAllReduce, 81), .ranks = {0, 1, 2}};
  run.calls_differ = {{.group = 5, .seq = 1001, .sides = {odd, usual}}};
  return run;
}
}  // namespace

TEST_CASE("rank-step-lag names the rank that had fewer batches and those that wait", "[check]") {
  const Findings findings = judge_run(shorter_epoch(), kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what ==
        "rank 3 ended the epoch after backward 100, ranks 0-2 wait in that of backward 101");
  CHECK(finding.ranks == RankList{3});
  CHECK(finding.step == 100);
  CHECK(fact_in(finding, "counter") == text_of("backwards"));
  CHECK(fact_in(finding, "value_per_rank") ==
        list_of({std::string("0: 101"), std::string("1: 101"), std::string("2: 101"),
                 std::string("3: 100")}));
  CHECK(fact_in(finding, "phase_per_rank") ==
        list_of({std::string("0: reduce"), std::string("2: reduce"), std::string("3: ended")}));
  CHECK(fact_in(finding, "lagging_ranks") == ranks_of({3}));
  CHECK(fact_in(finding, "waiting_ranks") == ranks_of({0, 1, 2}));
}

TEST_CASE("rank-step-lag tells of a batch that was left behind its backward", "[check]") {
  RanksComparedEvent run = shorter_epoch();
  Cohort& cohort = run.cohorts[0];
  ++cohort.counts[3].backwards;  // as many as the others, in one step less
  cohort.digests = {{.field = DigestField::kBackwards, .step = 9}};
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].step == 9);
  CHECK(findings[0].what ==
        "rank 3 skipped the collectives of a batch since step 9; ranks 0-2 wait in those of "
        "backward 101");
  cohort.counts[3].step = 101;
  CHECK(judge_run(run, kId).empty());
}

TEST_CASE("rank-step-lag tells since when a rank has skipped a batch", "[check]") {
  RanksComparedEvent run = shorter_epoch();
  Cohort& cohort = run.cohorts[0];
  cohort.counts[3].backwards = 101;
  CHECK(judge_run(run, kId).empty());
  cohort.counts[3].skipped_steps = 1;
  cohort.digests = {{.field = DigestField::kSkippedSteps, .step = 24, .consecutive = 77}};
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what ==
        "rank 3 skipped the collectives of a batch since step 24; ranks 0-2 wait in those of "
        "backward 101");
  CHECK(findings[0].step == 24);
  CHECK(fact_in(findings[0], "counter") == text_of("skipped_steps"));
  cohort.counts[0].skipped_steps = 1;
  CHECK(judge_run(run, kId).empty());
}

TEST_CASE("rank-step-lag sees a rank that went on to another collective", "[check]") {
  const Findings findings = judge_run(other_collective(), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].ranks == RankList{3});
  CHECK(findings[0].what ==
        "rank 3 issued broadcast float32[8] after backward 100, ranks 0-2 wait in all_reduce "
        "float32[8] of backward 101");
  CHECK(findings[0].fixes.front().text.starts_with("evaluate on all ranks"));
  REQUIRE(findings[0].sites.size() == 2);
  CHECK(findings[0].sites[0].frames[0].line == 81);
  CHECK(findings[0].sites[1].frames[0].line == 90);
  CHECK(findings[0].why.ends_with(
      "that they do not take part in; rank 3 called at train.cpp:90, ranks 0-2 at train.cpp:81"));
  CHECK(fact_in(findings[0], "waiting_ranks") == ranks_of({0, 1, 2}));
}

TEST_CASE("rank-step-lag leaves to others a call of one line and step that differs", "[check]") {
  RanksComparedEvent run = other_collective();
  auto& sides = run.calls_differ[0].sides;
  sides[1].call.site = sides[0].call.site;
  sides[1].call.record.step = sides[0].call.record.step + 1;
  CHECK(judge_run(run, kId).size() == 1);
  sides[1].call.record.step = sides[0].call.record.step;
  CHECK(judge_run(run, kId).empty());
}

TEST_CASE("rank-step-lag takes a clean end for the end of the loop, but not while ranks run",
          "[check]") {
  RanksComparedEvent run = shorter_epoch();
  run.stands[3].ended = false;
  CHECK(judge_run(run, kId).size() == 1);
  run.live = true;
  CHECK(judge_run(run, kId).empty());
}

namespace {
/// While it runs, rank 3 is some backwards behind, in a program that averages now and then.
RanksComparedEvent behind(std::int64_t backwards) {
  RanksComparedEvent run = shorter_epoch();
  run.live = true;
  run.stands[3] = {.rank = 3, .step = 101, .phase = Phase::kForward, .silent_ms = 900};
  run.cohorts[0].counts[3].backwards = 101 - backwards;
  return run;
}
}  // namespace

TEST_CASE("rank-step-lag tells while ranks run how far one is behind those that wait", "[check]") {
  const Findings findings = judge_run(behind(4), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].what == "rank 3 is 4 backwards behind: ranks 0-2 wait in that of backward 101");
  CHECK(findings[0].ranks == RankList{3});
  CHECK(fact_in(findings[0], "cause") == text_of("behind"));
  CHECK(fact_in(findings[0], "lagging_ranks") == ranks_of({3}));
  CHECK(judge_run(behind(2), kId).size() == 1);
}

TEST_CASE("rank-step-lag does not take these for ranks that are behind", "[check]") {
  RanksComparedEvent run = behind(4);
  SECTION("one backward less, as of a rank that evaluates") { run = behind(1); }
  SECTION("a rank inside a collective of another step") { run.stands[3].phase = Phase::kReduce; }
  SECTION("a rank without a heartbeat") { run.stands[3].silent_ms = 5000; }
  SECTION("a rank of which nothing is known") { run.stands[3].silent_ms = -1; }
  SECTION("what is left after the ranks ended") {
    run.live = false;
    run.endings.ranks[3].kind = EndKind::kKilled;
  }
  CHECK(judge_run(run, kId).empty());
}

TEST_CASE("rank-step-lag stays silent", "[check]") {
  SECTION("when no rank waits for another") {
    RanksComparedEvent run = shorter_epoch();
    run.frontiers.clear();
    run.cohorts[0].counts[3].backwards = 50;  // uneven inputs that are joined
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("on a rank that failed") {
    RanksComparedEvent run = shorter_epoch();
    run.stands[3].ended = false;
    run.endings.ranks[3].kind = EndKind::kException;
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("on a rank that stands still inside its step") {
    RanksComparedEvent run = shorter_epoch();
    run.stands[3].ended = false;
    run.endings.ranks[3].kind = EndKind::kKilled;
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("on calls that differ in the same backward") {
    RanksComparedEvent run = other_collective();
    run.cohorts[0].counts[3].backwards = 101;
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("on a program that does not average") {
    RanksComparedEvent run = shorter_epoch();
    exchange_parameters(run);
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("on a rank alone") {
    RanksComparedEvent run = shorter_epoch();
    run.cohorts[0].ranks = {3};
    CHECK(judge_run(run, kId).empty());
  }
}

TEST_CASE("rank-step-lag forecasts that a rank will have no more batches", "[check]") {
  RanksComparedEvent run = four_ranks();
  run.live = true;
  run.cohorts[0].epochs = {
      {.step = 1, .least = 49, .sides = {{"49", {3}}, {"51", {1}}, {"50", {0, 2}}}}};
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.what == "batches left in this epoch: 49 on rank 3, 51 on rank 1, 50 on ranks 0,2");
  CHECK(finding.why.starts_with(
      "after 49 of them ranks 0-2 will wait for rank 3 in the next average"));
  CHECK(finding.step == 1);
  CHECK(fact_in(finding, "counter") == text_of("batches"));
  CHECK(fact_in(finding, "lagging_ranks") == ranks_of({3}));
  CHECK(fact_in(finding, "waiting_ranks") == ranks_of({0, 1, 2}));
  CHECK(fact_in(finding, "forecast_step") == FactValue(std::int64_t{50}));
  run.live = false;
  CHECK(judge_run(run, kId).empty());
}

TEST_CASE("rank-step-lag forecasts nothing where ranks wait already, or do not average",
          "[check]") {
  RanksComparedEvent run = shorter_epoch();
  run.live = true;
  run.cohorts[0].epochs = {{.step = 1, .least = 49, .sides = {{"49", {3}}, {"50", {0, 1, 2}}}}};
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity != Severity::kNote);
  exchange_parameters(run);
  CHECK(judge_run(run, kId).empty());
}

}  // namespace ddpscope::test::rank_step_lag_test
