#include "checks/clip_factors.h"
#include "tests/support/catch.h"
#include "tests/support/clip_steps.h"
#include "tests/support/compared_ranks.h"
#include "tests/support/events.h"

namespace ddpscope::test::clip_before_reduce_test {
namespace {
constexpr char kId[] = "clip-before-reduce";

struct Loop {
  Program program;

  explicit Loop(int ranks = 2) : program{kId, nullptr, ranks} {
    program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
    program.optimizer(1, {1, 2});
  }
  void backward() {
    program.zero_grad(1);
    program.backward({1, 2});
  }
  void average() {
    program.send_now(CollectiveEvent{
        .seq = 9, .group_size = 2, .reduce = ReduceKind::kSum, .averages = true, .elements = 8});
  }
  void clip_then_average(double limit, double norm, std::int64_t ranks = 1) {
    backward();
    clip(program, {limit, norm, ranks});
    average();
    program.step(1);
  }
};

Findings judged(const DigestsDiffer& differ, bool averages = true) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].averages = averages;
  run.cohorts[0].digests = {differ};
  return judge_run(run, kId);
}

DigestsDiffer factors() {
  return {.field = DigestField::kClipFactor,
          .step = 3,
          .consecutive = 5,
          .last_step = 7,
          .differing = 5,
          .sides = {{"0.25", {1}}, {"0.5", {0, 2, 3}}}};
}
}  // namespace

TEST_CASE("clip-before-reduce is silent on gradients that are clipped for each sample", "[check]") {
  const bool is_cleared = GENERATE(true, false);  // else each is added to what is averaged
  Loop loop;
  for (int step = 0; step < 4; ++step) {
    loop.program.zero_grad(1);
    for (int sample = 0; sample < 3; ++sample) {
      if (is_cleared) loop.program.zero_grad(1);
      loop.program.backward({1, 2});
      clip(loop.program, {1, sample < 2 ? 0.5 : 4, 1});
    }
    loop.average();
    loop.program.step(1);
  }
  CHECK(loop.program.findings.empty() == is_cleared);
}

TEST_CASE("clip-before-reduce reports gradients that are clipped and then averaged", "[check]") {
  Loop loop;
  loop.clip_then_average(1, 4);
  CHECK(loop.program.findings.empty());
  loop.clip_then_average(1, 2);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 1);
  CHECK(finding.phase == Phase::kReduce);
  CHECK(finding.what ==
        "gradients were clipped to norm 1 by each rank's own norm before they were averaged "
        "(before_reduce)");
  CHECK(finding.why.starts_with("collective #9 averages what this rank had scaled by 0.5,"));
  CHECK(cause_of(finding) == "before_reduce");
  CHECK(fact_of<double>(finding, "factor_min") == Approx(0.25));
  CHECK(fact_of<double>(finding, "factor_max") == Approx(0.5));
  CHECK(fact_of<std::int64_t>(finding, "collective_seq") == 9);
}

TEST_CASE("clip-before-reduce tells of a norm over shards that others than those average",
          "[check]") {
  Loop loop(/*ranks=*/4);  // two groups of shards, and two of those that hold the same ones
  for (int i = 0; i < 2; ++i) loop.clip_then_average(1, 4, 2);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].what ==
        "gradients were clipped to norm 1 by a norm over the shards of 2 ranks before they were "
        "averaged (before_reduce)");
}

TEST_CASE("clip-before-reduce tells in a merge by which factors each rank clipped", "[check]") {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].digests = {factors()};
  run.cohorts[0].digests[0].sides = {{"0.25", {1}}, {"1", {0, 2, 3}}};
  const double limit = 2;
  Finding told{.id = kId,
               .rank = 1,
               .why = "this rank's own",
               .facts = {{"cause", std::string("before_reduce")},
                         {"factor_min", 0.25},
                         {"factor_max", 0.3},
                         {"max_norm", limit}}};
  SECTION("and from which norms") {
    tell_clip_factors(run, {&told});
    CHECK(told.why ==
          "this rank's own; in step 3 the factors were 0.25 (rank 1) to 1 (ranks 0,2-3)");
    CHECK(fact_in(told, "factor_min") == FactValue(0.25));
    CHECK(fact_in(told, "factor_max") == FactValue(1.0));
    CHECK(fact_in(told, "value_per_rank") == list_of({"1: 0.25", "0,2-3: 1"}));
    CHECK(fact_in(told, "norms_per_rank") == list_of({"1: 8", "0,2-3: at most 2"}));
  }
  SECTION("but no norms where a step clips several times") {
    run.cohorts[0].digests[0].sides[0].value = "0.0625";
    tell_clip_factors(run, {&told});
    CHECK(fact_in(told, "factor_min") == FactValue(0.0625));
    CHECK(fact_in(told, "norms_per_rank") == text_of("absent"));
  }
  SECTION("and nothing of ranks of another cohort, or of what ranks said together") {
    run.cohorts[0].ranks = {0, 2, 3};
    tell_clip_factors(run, {&told});
    told.rank = 0;
    told.facts.resize(1);
    tell_clip_factors(run, {&told});
    CHECK(told.why == "this rank's own");
  }
}

TEST_CASE("clip-before-reduce reports factors that differ between ranks", "[check]") {
  DigestsDiffer differ = factors();
  std::string cause = "factor_differs";
  SECTION("on all of them") {}
  SECTION("where only some clip") {
    differ.sides = {{"0.500000123", {1}}, {"1", {0, 2, 3}}};
    cause = "partial";
  }
  const Findings findings = judged(differ);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].step == 3);
  CHECK(findings[0].last_step == 7);
  CHECK(findings[0].ranks == RankList{0, 1, 2, 3});
  CHECK(fact_in(findings[0], "cause") == text_of(cause.c_str()));
  if (cause == "partial")
    CHECK(findings[0].what.find(": 0.5 on rank 1, 1 on") != std::string::npos);
  CHECK(fact_in(findings[0], "factor_min") == FactValue(cause == "partial" ? 0.500000123 : 0.25));
  CHECK(fact_in(findings[0], "factor_max") == FactValue(cause == "partial" ? 1.0 : 0.5));
}

TEST_CASE("clip-before-reduce stays silent", "[check]") {
  Loop loop;
  SECTION("when the average comes first") {
    for (int i = 0; i < 3; ++i) {
      loop.backward();
      loop.average();
      clip(loop.program, 1, 4);
      loop.program.step(1);
    }
  }
  SECTION("when the limit is never reached") {
    for (int i = 0; i < 3; ++i) loop.clip_then_average(8, 4);
  }
  SECTION("when the norm is of all ranks") {
    for (int i = 0; i < 3; ++i) loop.clip_then_average(1, 4, 2);
  }
  SECTION("in one cycle") { loop.clip_then_average(1, 4); }
  SECTION("when factors differ in one step") {
    DigestsDiffer differ = factors();
    differ.consecutive = 1;
    CHECK(judged(differ).empty());
  }
  SECTION("when the ranks average nothing") { CHECK(judged(factors(), false).empty()); }
  CHECK(loop.program.findings.empty());
}

}  // namespace ddpscope::test::clip_before_reduce_test
