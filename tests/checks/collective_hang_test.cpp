#include "tests/support/catch.h"
#include "tests/support/rank_events.h"

namespace ddpscope::test::collective_hang_test {
namespace {
constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kSince = 1'900'000'000 * kSecondNs;

RankStand stand(std::int64_t rank, std::uint64_t last_seq) {
  return {.rank = rank,
          .last_seq = last_seq,
          .is_open = last_seq == 482,
          .step = 20,
          .phase = Phase::kForward,
          .module = rank == 3 ? "evaluate" : "layer2",
          .beat_unix_ns = kSince};
}

/// Ranks 0-2 wait 30 s in call 482, rank 3 issued 481 calls.
RanksComparedEvent hanging(bool live = false) {
  RanksComparedEvent run = compared_run(4);
  run.live = live;
  run.hang_after_ms = 20'000;
  Frontier frontier{.group = kTestGroup, .seq = 482, .waiting = {0, 1, 2}, .behind = {3}};
  frontier.call = compared_call({.seq = 482,
                                 .group = kTestGroup,
                                 .step = 20,
                                 .kind = CollectiveKind::kAllReduce,
                                 .phase = Phase::kReduce},
                                {"layer2.weight.grad", "layer2"});
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    frontier.stands.push_back(stand(rank, rank == 3 ? 481 : 482));
  }
  frontier.waited_ms = 30'000;
  frontier.since_unix_ns = kSince;
  frontier.median_wait_ms = 40;
  run.frontiers = {frontier};
  return run;
}

Findings judge(const RanksComparedEvent& run) { return judged(run, "collective-hang"); }

Finding only(const RanksComparedEvent& run) {
  const Findings findings = judge(run);
  REQUIRE(findings.size() == 1);
  return findings[0];
}
}  // namespace

TEST_CASE("collective-hang tells of ranks that left no records what it does not know", "[check]") {
  RanksComparedEvent run = hanging();
  Frontier& frontier = run.frontiers[0];
  frontier.behind.clear();
  frontier.stands.pop_back();
  frontier.unknown = 1;
  frontier.group = group_key(1, 4);
  run.with_ring = {0, 1, 2};
  const Finding finding = only(run);
  CHECK(finding.what ==
        "ranks 0-2 waited 30 s in all_reduce 482 of layer2.weight.grad; rank 3 left no records");
  CHECK(finding.why.starts_with("whether the rank issued the call is not known"));
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.ranks == RankList{3});
  SECTION("and is silent where the rank failed") {
    run.endings.ranks = {
        {.rank = 3, .kind = EndKind::kSignal, .unix_ns = kSince, .signal = "SIGSEGV"}};
    CHECK(judge(run).empty());
  }
  SECTION("and where the group is not of all ranks") {
    frontier.group = group_key(1, 3);
    CHECK(judge(run).empty());
  }
}

TEST_CASE("collective-hang shows the line that waits, where it is known", "[check]") {
  RanksComparedEvent run = hanging();
  CHECK(only(run).sites.empty());
  run.frontiers[0].call.site = {.role = "called", .frames = {{.file = "train.cpp", .line = 88}}};
  const Finding finding = only(run);
  REQUIRE(finding.sites.size() == 1);
  CHECK(finding.sites[0].frames[0].line == 88);
}

TEST_CASE("collective-hang names who waits, in which call, and who never issued it", "[check]") {
  const Finding finding = only(hanging());
  CHECK(finding.what ==
        "ranks 0-2 waited 30 s in all_reduce 482 of layer2.weight.grad; rank 3 last issued 481 and "
        "was in evaluate of step 20 (alive)");
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.rank == 3);
  CHECK(finding.ranks == RankList{3});
  CHECK(finding.step == 20);
  CHECK(finding.op == "all_reduce");
  CHECK(finding.module_path == "layer2");
  CHECK(finding.subject == "weight");
  CHECK(fact_of(finding, "seq") == FactValue(std::int64_t{482}));
  CHECK(fact_of(finding, "waiting_ranks") == numbers({0, 1, 2}));
  CHECK(fact_of(finding, "suspect_ranks") == numbers({3}));
  CHECK(fact_of(finding, "state") == FactValue(std::string("alive")));
  CHECK(fact_of(finding, "last_seq_per_rank") == numbers({482, 482, 482, 481}));
  CHECK(fact_of(finding, "phase_per_rank") == words({"forward", "forward", "forward", "forward"}));
  CHECK(fact_of(finding, "waited_ms") == FactValue(std::int64_t{30'000}));
  CHECK(fact_of(finding, "median_ms") == FactValue(std::int64_t{40}));
}

TEST_CASE("collective-hang tells while ranks hang whether the late one moves", "[check]") {
  RanksComparedEvent run = hanging(/*live=*/true);
  RankStand& late = run.frontiers[0].stands[3];
  late.still_ms = 30'000;
  CHECK(only(run).what.ends_with("rank 3 last issued 481 and is in evaluate of step 20 (stuck)"));
  CHECK(only(run).what.starts_with("ranks 0-2 wait 30 s"));
  CHECK(only(run).severity == Severity::kError);
  late.still_ms = 100;
  CHECK(only(run).what.ends_with("(slow)"));
  CHECK(only(run).severity == Severity::kWarning);
  late.silent_ms = 12'000;
  CHECK(only(run).what.ends_with("(no heartbeat)"));
  CHECK(only(run).severity == Severity::kError);
}

TEST_CASE("collective-hang needs a wait that is no ordinary one", "[check]") {
  RanksComparedEvent run = hanging();
  Frontier& frontier = run.frontiers[0];
  SECTION("after the fact five seconds do, as a warning") {
    frontier.waited_ms = 4999;
    CHECK(judge(run).empty());
    frontier.waited_ms = 5000;
    CHECK(only(run).severity == Severity::kWarning);
    CHECK(only(run).confidence == Confidence::kMedium);
    run.hang_after_ms = 2000;
    frontier.waited_ms = 2000;
    CHECK(only(run).severity == Severity::kError);
  }
  SECTION("while ranks run the setting counts") {
    run.live = true;
    frontier.waited_ms = 19'999;
    CHECK(judge(run).empty());
  }
  SECTION("five times what is usual") {
    frontier.median_wait_ms = 6001;
    CHECK(judge(run).empty());
  }
  SECTION("in the first step and the first calls, connections are made") {
    frontier.waited_ms = 10'000;
    CHECK(judge(run).size() == 1);
    frontier.call.record.step = 1;
    CHECK(judge(run).empty());
    frontier.call.record.step = 20;
    frontier.seq = 3;
    CHECK(judge(run).empty());
  }
}

TEST_CASE("collective-hang tells of a call that threw without a time", "[check]") {
  RanksComparedEvent run = hanging();
  run.frontiers[0].waited_ms = 0;
  run.frontiers[0].stands[3].ended = true;
  run.frontiers[0].call.owner = "bucket";
  CHECK(only(run).what.starts_with("ranks 0-2 waited in all_reduce 482 of bucket; "));
  CHECK(only(run).subject == "bucket");
  run.frontiers[0].call.owner = "";
  CHECK(only(run).module_path == "layer2");
  CHECK(only(run).subject == "");
}

TEST_CASE("collective-hang tells at once of a rank that left its loop", "[check]") {
  RanksComparedEvent run = hanging();
  run.frontiers[0].waited_ms = 3;
  run.endings.ranks = {{.rank = 3, .kind = EndKind::kClean}};
  CHECK(only(run).what ==
        "ranks 0-2 waited 3 ms in all_reduce 482 of layer2.weight.grad; rank 3 last issued 481 and "
        "left its loop after step 19");
  run.endings.ranks.clear();
  run.frontiers[0].stands[3].ended = true;
  CHECK(fact_of(only(run), "state") == FactValue(std::string("ended")));
}

TEST_CASE("collective-hang stays silent", "[check]") {
  RanksComparedEvent run = hanging();
  SECTION("where no rank waits for another") { run.frontiers.clear(); }
  SECTION("where those that seem to wait ended cleanly: nobody waited for that call") {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      run.endings.ranks.push_back({.rank = rank, .kind = EndKind::kClean});
    }
  }
  SECTION("where the late rank failed: rank-first-failure tells") {
    run.endings.ranks = {{.rank = 3, .kind = EndKind::kException, .exception = "no memory"}};
  }
  SECTION("where the late rank was killed before the others waited") {
    run.endings.ranks = {{.rank = 3, .kind = EndKind::kKilled, .unix_ns = kSince}};
  }
  CHECK(judge(run).empty());
}

TEST_CASE("collective-hang tells of a rank that was killed or stopped for hanging", "[check]") {
  RanksComparedEvent run = hanging();
  SECTION("killed later than the others began to wait") {
    run.endings.ranks = {{.rank = 3, .kind = EndKind::kKilled, .unix_ns = kSince + 30 * kSecondNs}};
  }
  SECTION("stopped by the launcher") {
    run.endings.ranks = {{.rank = 3, .kind = EndKind::kKilled, .unix_ns = kSince, .stopped = true}};
  }
  SECTION("asked to end") {
    run.endings.ranks = {
        {.rank = 3, .kind = EndKind::kSignal, .unix_ns = kSince, .signal = "SIGTERM"}};
  }
  CHECK(judge(run).size() == 1);
}

TEST_CASE("collective-hang blames no rank that itself waits in another group", "[check]") {
  RanksComparedEvent run = hanging();
  Frontier second = run.frontiers[0];
  second.group = kTestGroup + 1;
  second.waiting = {3};
  second.behind = {1};
  SECTION("but the one that all wait for") {
    run.frontiers[0].waiting = {0, 2};
    run.frontiers.push_back(second);
    CHECK(only(run).ranks == RankList{1});
  }
  SECTION("unless they wait for each other") {
    run.frontiers.push_back(second);
    const Findings findings = judge(run);
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].severity == Severity::kError);
    CHECK(findings[0].why.starts_with("rank 3 waits in all_reduce 482 of "));
    CHECK(
        findings[0].why.ends_with("the ranks issue the calls of these groups in different orders"));
    CHECK(findings[0].fixes.at(0).text ==
          "issue the calls of all groups in one order on every rank");
  }
}

}  // namespace ddpscope::test::collective_hang_test
