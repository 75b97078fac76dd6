#include <algorithm>

#include "checks/check_table.h"
#include "checks/ranks_judge.h"
#include "tests/support/catch.h"

namespace ddpscope::test::rank_first_failure_test {
namespace {
constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kStart = 1'900'000'000'000'000'000;

RankEnding clean(std::int64_t rank, std::int64_t steps = 100) {
  return {.rank = rank, .step = steps, .host = "node0"};
}

RankEnding ended(std::int64_t rank, EndKind kind, std::int64_t after_ms) {
  return {.rank = rank,
          .kind = kind,
          .unix_ns = kStart + after_ms * kMs,
          .step = 12,
          .phase = Phase::kForward,
          .host = "node0"};
}

RankEnding thrown(std::int64_t rank, std::int64_t after_ms, const std::string& text = "no memory") {
  RankEnding ending = ended(rank, EndKind::kException, after_ms);
  ending.exception_type = "c10::Error";
  ending.exception = text + "\nsecond line";
  return ending;
}

RankEnding signalled(std::int64_t rank, const std::string& signal, std::int64_t after_ms) {
  RankEnding ending = ended(rank, EndKind::kSignal, after_ms);
  ending.signal = signal;
  return ending;
}

/// Killed, as a launcher saw it; without one nobody knows when.
RankEnding killed(std::int64_t rank, std::optional<std::int64_t> after_ms = std::nullopt) {
  RankEnding ending{.rank = rank, .kind = EndKind::kKilled, .step = 3, .host = "node0"};
  if (!after_ms) return ending;
  ending.unix_ns = kStart + *after_ms * kMs;
  ending.noticed = true;
  ending.signal = "SIGKILL";
  return ending;
}

Findings judge(std::vector<RankEnding> ranks, const std::vector<Finding*>& of_ranks = {}) {
  const auto world_size = static_cast<std::int64_t>(ranks.size());
  RanksComparedEvent run{.world_size = world_size};
  run.endings = {.world_size = world_size, .ranks = std::move(ranks)};
  return judge_ranks(run, {.enabled = {"rank-first-failure"}, .of_ranks = of_ranks}).findings;
}

FactValue fact(const Finding& finding, const std::string& key) {
  const auto found = std::ranges::find(finding.facts, key, &Fact::key);
  return found == finding.facts.end() ? FactValue(std::string("absent")) : found->value;
}

Finding only(const Findings& findings) {
  REQUIRE(findings.size() == 1);
  return findings[0];
}

Finding operator_failed(std::int64_t rank, std::int64_t step) {
  return {.id = "module-operator-failed",
          .severity = Severity::kError,
          .rank = rank,
          .step = step,
          .fingerprint = "cause"};
}
}  // namespace

TEST_CASE("rank-first-failure names the rank with the smallest stamp and what ended it",
          "[check]") {
  RankEnding first = thrown(3, 0);
  first.module_path = "roi";
  first.op = "aten::cat";
  auto stopped = [](std::int64_t rank) {
    RankEnding ending = signalled(rank, "SIGTERM", 4100);
    ending.stopped = true;
    return ending;
  };
  const Finding finding = only(judge({stopped(0), stopped(1), stopped(2), first, stopped(4)}));
  CHECK(finding.what ==
        "rank 3 failed first, in forward: c10::Error \"no memory\"; ranks 0-2,4 were ended by the "
        "launcher 4.1 s later");
  CHECK(finding.id == "rank-first-failure");
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.causal_role == CausalRole::kInitiating);
  CHECK(finding.rank == 3);
  CHECK(finding.step == 12);
  CHECK(finding.module_path == "roi");
  CHECK(finding.op == "aten::cat");
  CHECK(fact(finding, "first_rank") == FactValue(std::int64_t{3}));
  CHECK(fact(finding, "reason_kind") == FactValue(std::string("exception")));
  CHECK(fact(finding, "exception") == FactValue(std::string("c10::Error \"no memory\"")));
  CHECK(fact(finding, "phase") == FactValue(std::string("forward")));
  CHECK(fact(finding, "host") == FactValue(std::string("node0")));
  CHECK(fact(finding, "delay_ms") == FactValue(std::int64_t{4100}));
  CHECK(fact(finding, "signal") == FactValue(std::string("absent")));
}

TEST_CASE("rank-first-failure says how each of the others ended", "[check]") {
  RankEnding left = ended(2, EndKind::kExit, 7);
  left.code = 2;
  const Finding finding =
      only(judge({signalled(0, "SIGSEGV", 0), thrown(1, 5), left, killed(3, 9)}));
  CHECK(finding.what ==
        "rank 0 failed first, in forward: SIGSEGV; rank 1 ended on an exception 5 ms later; rank 2 "
        "left with exit code 2 7 ms later; rank 3 was killed 9 ms later");
  CHECK(fact(finding, "signal") == FactValue(std::string("SIGSEGV")));
}

TEST_CASE("rank-first-failure blames a killed rank before those that only react", "[check]") {
  RankEnding left = ended(1, EndKind::kExit, 0);
  left.code = 2;
  for (const RankEnding& reaction :
       {signalled(1, "SIGPIPE", 0), left, signalled(1, "SIGTERM", 0),
        thrown(1, 0, "[gloo] Connection closed by peer [127.0.0.1]:1")}) {
    CHECK(only(judge({killed(0), reaction})).rank == 0);
    CHECK(only(judge({killed(0, 500), reaction})).rank == 0);
    CHECK(only(judge({killed(0, 1500), reaction})).rank == 1);
  }
  const Finding noticed = only(judge({killed(0, 3), signalled(1, "SIGPIPE", 0)}));
  CHECK(noticed.what ==
        "rank 0 failed first: SIGKILL; its last record is of step 3; rank 1 was ended by SIGPIPE "
        "0 ms later");
  CHECK(noticed.evidence_status == EvidenceStatus::kEstablished);
  const Finding guessed = only(judge({killed(0), signalled(1, "SIGPIPE", 0)}));
  CHECK(guessed.evidence_status == EvidenceStatus::kSupported);
  CHECK(fact(guessed, "delay_ms") == FactValue(std::string("absent")));
  CHECK(fact(guessed, "reason_kind") == FactValue(std::string("killed")));
}

TEST_CASE("rank-first-failure blames the rank that left before one that met a closed connection",
          "[check]") {
  RankEnding left = ended(1, EndKind::kExit, 28);
  left.code = 2;
  CHECK(only(judge({signalled(0, "SIGPIPE", 0), left})).rank == 1);
  left.unix_ns = *left.unix_ns + 2'000'000'000;
  CHECK(only(judge({signalled(0, "SIGPIPE", 0), left})).rank == 0);
}

TEST_CASE("rank-first-failure blames the rank that left before one whose call threw for it",
          "[check]") {
  RankEnding threw = ended(0, EndKind::kExit, 0);
  RankEnding left = ended(1, EndKind::kExit, 30);
  const auto judge_with_calls = [](const RankEnding& first, const RankEnding& second) {
    RanksComparedEvent run{.world_size = 2};
    run.endings = {.world_size = 2, .ranks = {first, second}};
    run.stands = {{.rank = 0, .last_seq = 8}, {.rank = 1, .last_seq = 7}};
    run.stands[0].last.record = {.seq = 8, .group = group_key(1, 2), .state = CallState::kFailed};
    return only(judge_ranks(run, {.enabled = {"rank-first-failure"}}).findings).rank;
  };
  CHECK(judge_with_calls(threw, left) == 1);
  CHECK(judge_with_calls(threw, thrown(1, 30)) == 1);
  CHECK(judge_with_calls(threw, ended(1, EndKind::kExit, 4000)) == 0);
  CHECK(judge_with_calls(threw, signalled(1, "SIGTERM", 30)) == 0);
  left.stopped = true;
  CHECK(judge_with_calls(threw, left) == 0);
}

TEST_CASE("rank-first-failure takes the place of a rank without a last word from its ring",
          "[check]") {
  RanksComparedEvent run{.world_size = 2};
  run.endings = {.world_size = 2, .ranks = {killed(0, 0), clean(1)}};
  if (GENERATE(false, true)) {  // by _exit()
    run.endings.ranks[0].kind = EndKind::kExit;
    run.endings.ranks[0].signal.clear();
  }
  run.stands = {
      {.rank = 0, .last_seq = 8, .step = 5, .phase = Phase::kInit, .beat_unix_ns = kStart}};
  CallRecord& last = run.stands[0].last.record;
  last = {.seq = 8, .group = group_key(1, 2), .unix_ns = kStart - kMs, .phase = Phase::kReduce};
  const auto judged = [&run] {
    return only(judge_ranks(run, {.enabled = {"rank-first-failure"}}).findings);
  };
  CHECK(judged().phase == Phase::kInit);
  CHECK(judged().step == 5);
  last.unix_ns = kStart + kMs;
  last.step = 4;
  CHECK(judged().what.find(", in ") == std::string::npos);
  last.step = 5;
  CHECK(judged().phase == Phase::kReduce);
  CHECK(judged().what.find(", in reduce") != std::string::npos);
}

TEST_CASE("rank-first-failure does not blame a killed rank for what another did", "[check]") {
  CHECK(only(judge({killed(0), thrown(1, 0)})).rank == 1);
  CHECK(only(judge({killed(0, 3), signalled(1, "SIGSEGV", 0)})).rank == 1);
  RankEnding stopped = killed(0, 3);
  stopped.stopped = true;
  CHECK(only(judge({stopped, signalled(1, "SIGPIPE", 0)})).rank == 1);
}

TEST_CASE("rank-first-failure says that it does not know which of several was first", "[check]") {
  const Finding finding = only(judge({killed(0), killed(1)}));
  CHECK(finding.evidence_status == EvidenceStatus::kUndecided);
  CHECK(finding.ranks == std::vector<std::int64_t>{0, 1});
  CHECK(fact(finding, "first_rank") == FactValue(std::string("absent")));
  CHECK(only(judge({killed(0, 9), killed(1, 4)})).rank == 1);
}

TEST_CASE("rank-first-failure is a note where all ranks were told to stop at once", "[check]") {
  for (const char* signal : {"SIGHUP", "SIGTERM", "SIGINT", "SIGQUIT"}) {
    const Finding finding =
        only(judge({signalled(0, signal, 900), signalled(1, signal, 0), signalled(2, signal, 5)}));
    CHECK(finding.severity == Severity::kNote);
    CHECK(finding.what == std::string("ranks 0-2 were ended by ") + signal + " within 900 ms");
    CHECK(fact(finding, "cause") == FactValue(std::string("launcher_or_session")));
    CHECK(fact(finding, "first_rank") == FactValue(std::int64_t{1}));
  }
  const Finding late = only(judge({signalled(0, "SIGTERM", 0), signalled(1, "SIGTERM", 1100)}));
  CHECK(late.severity == Severity::kError);
  CHECK(only(judge({signalled(0, "SIGTERM", 0), signalled(1, "SIGPIPE", 5)})).severity ==
        Severity::kError);
}

TEST_CASE("rank-first-failure points to the finding that explains the failure", "[check]") {
  Finding cause = operator_failed(1, 12);
  const Finding finding = only(judge({clean(0), thrown(1, 0)}, {&cause}));
  CHECK(finding.caused_by == "cause");
  CHECK(finding.causal_role == CausalRole::kCascade);
  CHECK(finding.why == "see module-operator-failed of rank 1");
  CHECK(cause.causal_role == CausalRole::kInitiating);
}

TEST_CASE("rank-first-failure takes no finding of another rank, step or weight for it", "[check]") {
  Finding of_other_rank = operator_failed(0, 12);
  Finding of_other_step = operator_failed(1, 11);
  Finding caught = operator_failed(1, 12);
  caught.severity = Severity::kNote;
  Finding unrelated = operator_failed(1, 12);
  unrelated.id = "grad-missing";
  const Finding finding =
      only(judge({clean(0), thrown(1, 0)}, {&of_other_rank, &of_other_step, &caught, &unrelated}));
  CHECK(finding.caused_by.empty());
}

TEST_CASE("rank-first-failure stays silent", "[check]") {
  SECTION("when all ranks left with code 0") { CHECK(judge({clean(0), clean(1)}).empty()); }
  SECTION("on SIGTERM after the last step") {
    RankEnding waiting = signalled(0, "SIGTERM", 0);
    waiting.step = 101;
    CHECK(judge({waiting, clean(1, 100)}).empty());
    waiting.step = 100;
    CHECK(judge({waiting, clean(1, 100)}).size() == 1);
    waiting.phase = Phase::kExit;
    CHECK(judge({waiting, clean(1, 100)}).empty());
  }
  SECTION("in a single process") { CHECK(judge({thrown(0, 0)}).empty()); }
  SECTION("when it is switched off") {
    RanksComparedEvent run{.world_size = 2};
    run.endings = {.world_size = 2, .ranks = {clean(0), thrown(1, 0)}};
    CHECK(judge_ranks(run, {}).findings.empty());
  }
}

}  // namespace ddpscope::test::rank_first_failure_test
