#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::perf_straggler_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "perf-straggler";

Findings told(const Straggler& slow) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].stragglers = {slow};
  return judge_run(run, kId);
}

Straggler slow_forward() {
  return {.rank = 2,
          .step = 150,
          .steps = 50,
          .late = 45,
          .lost_ms = 194,
          .step_ms = 473,
          .phase = "forward",
          .phase_ms = 312,
          .others_ms = 118,
          .lost_per_part = {190, 196, 194, 191, 195}};
}
}  // namespace

TEST_CASE("perf-straggler tells who is late and where it loses the time", "[check]") {
  const Findings findings = told(slow_forward());
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what ==
        "rank 2 costs 194 ms per step (41 %), lost in forward (312 ms, others 118 ms)");
  CHECK(finding.why ==
        "it comes last to the first collective in 45 of 50 steps; the others wait for it there");
  CHECK(finding.step == 150);
  CHECK(finding.phase == Phase::kForward);
  CHECK(finding.ranks == RankList{2});
  CHECK(fact_in(finding, "culprit_rank") == FactValue(std::int64_t{2}));
  CHECK(fact_in(finding, "phase") == text_of("forward"));
  CHECK(fact_in(finding, "late_ratio") == FactValue(0.9));
  CHECK(fact_in(finding, "lost_ms") == FactValue(194.0));
  CHECK(fact_in(finding, "step_ms") == FactValue(473.0));
  CHECK(fact_in(finding, "trend") == text_of("steady"));
  CHECK(fact_in(finding, "batch_elements_ratio") == text_of("absent"));
}

TEST_CASE("perf-straggler tells what grows and what shrinks", "[check]") {
  Straggler slow = slow_forward();
  slow.lost_per_part = {100, 150, 190, 230, 280};
  CHECK(fact_in(told(slow)[0], "trend") == text_of("rising"));
  CHECK(told(slow)[0].why.ends_with("; what it costs is rising"));
  std::ranges::reverse(slow.lost_per_part);
  CHECK(fact_in(told(slow)[0], "trend") == text_of("falling"));
  slow.lost_per_part = {100, 280, 100, 280, 100};
  CHECK(fact_in(told(slow)[0], "trend") == text_of("steady"));
}

TEST_CASE("perf-straggler compares the batches of the rank with the others'", "[check]") {
  Straggler slow = slow_forward();
  slow.batch_ratio = 2.5;
  CHECK(told(slow)[0].why.ends_with("; its batches have 2.5 times the elements of the others'"));
  CHECK(fact_in(told(slow)[0], "batch_elements_ratio") == FactValue(2.5));
  CHECK(told(slow)[0].fixes[0].text ==
        "compare the shapes of its batches with those of the others");
  slow.batch_ratio = 1;
  CHECK(told(slow)[0].why.ends_with("; its batches are as large as the others'"));
  CHECK_FALSE(told(slow)[0].fixes[0].text.starts_with("compare the shapes"));
}

TEST_CASE("perf-straggler speaks of the loader where data is late", "[check]") {
  Straggler slow = slow_forward();
  slow.phase = "data";
  CHECK(told(slow)[0].fixes[0].text.starts_with("more loader workers"));
}

TEST_CASE("perf-straggler names no phase where the parts are not known", "[check]") {
  Straggler slow = slow_forward();
  slow.phase.clear();
  const Findings findings = told(slow);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "rank 2 costs 194 ms per step (41 %)");
  CHECK(findings[0].phase == Phase::kReduce);
  CHECK(fact_in(findings[0], "phase") == text_of("absent"));
}

TEST_CASE("perf-straggler stays silent on ranks that come in time", "[check]") {
  CHECK(judge_run(four_ranks(), kId).empty());
}
}  // namespace ddpscope::test::perf_straggler_test
