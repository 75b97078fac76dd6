// Ranks that issue none of the collectives of a step, and such that scale what they reduced.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::ranks_of_their_own_test {
namespace {
Findings judged(RankList silent, std::int64_t calls, bool always = false) {
  ReductionStep equal{.step = 1, .sampled = 6, .calls = 4, .backwards = 1};
  ReductionStep skipped = equal;
  skipped.step = 2;
  skipped.calls = calls;
  skipped.differing = 6;
  skipped.first_differing = {.model = "Net", .path = "fc.weight", .dtype = "float32"};
  skipped.silent = std::move(silent);
  ReductionStep after = skipped;
  after.step = 3;
  if (always) {
    equal.silent = after.silent;
  } else {
    after.silent.clear();
  }
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].reductions = {equal, skipped, after};
  return judge_run(run, "grad-not-reduced");
}
}  // namespace

TEST_CASE("grad-not-reduced names the ranks that issued no collective", "[check]") {
  const Findings one = judged({2}, 4);
  REQUIRE(one.size() == 1);
  CHECK(one[0].severity == Severity::kError);
  CHECK(one[0].step == 2);
  CHECK(one[0].why ==
        "rank 2 issued no collective in that step, and others up to 4: the next calls of this rank "
        "meet those of that step on the others");
  CHECK(one[0].fixes.at(0).text.starts_with("issue the same collectives on every rank"));
  CHECK(fact_in(one[0], "silent_ranks") == FactValue(std::vector<FactScalar>{std::int64_t{2}}));
  CHECK(judged({0, 3}, 4).at(0).why.starts_with("ranks 0,3 issued no collective"));
}

TEST_CASE("grad-not-reduced names the ranks that take part in no step", "[check]") {
  const Findings findings = judged({2}, 4, /*always=*/true);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].why ==
        "rank 2 issued no collective in any step, and others up to 4 in this one: no member of "
        "their group, or not asked to average");
  CHECK(findings[0].fixes.at(0).text ==
        "average over a process group of all ranks, on all of them");
}

TEST_CASE("grad-not-reduced names no rank where each issued some", "[check]") {
  const Findings findings = judged({}, 4);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].why.starts_with("4 collectives were issued in that step"));
  CHECK_FALSE(find_fact(findings[0], "silent_ranks"));
}

TEST_CASE("grad-not-reduced names factors that ranks have of their own", "[check]") {
  const ReductionStep equal{.step = 1, .sampled = 6, .calls = 4, .backwards = 1};
  ReductionStep scaled = equal;
  scaled.step = 2;
  scaled.differing = 6;
  scaled.reduces_last = true;
  scaled.factors = {{"0.5", {1}}, {"0.25", {0, 2, 3}}};
  ReductionStep after = scaled;
  after.step = 3;
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].reductions = {equal, scaled, after};
  const Findings findings = judge_run(run, "grad-not-reduced");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].why ==
        "4 collectives were issued in that step, and each rank multiplied its gradients by a "
        "factor of its own, 0.5 on rank 1, 0.25 on ranks 0,2-3: after the average that parts the "
        "replicas, as a clip by the norm of its own gradients does");
  CHECK(fact_in(findings[0], "value_per_rank") ==
        FactValue(std::vector<FactScalar>{std::string("1: 0.5"), std::string("0,2-3: 0.25")}));
}

TEST_CASE("grad-not-reduced warns of groups that divide by the number of all ranks", "[check]") {
  const double ratio = GENERATE(0.5, 1.0);
  const std::int64_t backwards = GENERATE(1, 2);
  RanksComparedEvent run = four_ranks();
  run.cohorts = {{.ranks = {0, 1}, .averages = true}, {.ranks = {2, 3}, .averages = true}};
  Cohort& apart = run.apart.emplace(Cohort{.ranks = {0, 1, 2, 3}, .parts = {{0, 1}, {2, 3}}});
  for (std::int64_t number = 1; number <= 3; ++number) {
    run.cohorts[0].reductions.push_back(
        {.step = number, .sampled = 6, .backwards = backwards, .ratio = ratio});
    ReductionStep step = differing_step();
    step.step = number;
    step.differs_by_part = true;
    apart.reductions.push_back(step);
  }
  const Findings findings = judge_run(run, "grad-not-reduced");
  REQUIRE(findings.size() == 1);
  const bool is_of_all = ratio < 1 && backwards == 1;
  CHECK(findings[0].severity == (is_of_all ? Severity::kWarning : Severity::kNote));
  CHECK(findings[0].why.ends_with("each of them divides by the 4 ranks of the run: the sum was to "
                                  "be over all of these") == is_of_all);
  CHECK(findings[0].fixes.at(is_of_all ? 0 : 1).text ==
        "average over a process group of all ranks");
}

}  // namespace ddpscope::test::ranks_of_their_own_test
