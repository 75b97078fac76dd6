#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::rank_optimizer_differs_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "rank-optimizer-differs";

DigestsDiffer differ(DigestField field, std::int64_t step, std::int64_t differing) {
  return {.field = field,
          .step = step,
          .consecutive = differing,
          .last_step = step + differing - 1,
          .differing = differing,
          .compared = 100 - step,
          .sides = {{"0.01", {3}}, {"0.1", {0, 1, 2}}}};
}

RanksComparedEvent with(const std::vector<DigestsDiffer>& digests) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].digests = digests;
  return run;
}
}  // namespace

TEST_CASE("rank-optimizer-differs names the rate, its ranks and since when", "[check]") {
  const Findings findings = judge_run(
      with({differ(DigestField::kLearningRate, 12, 80), differ(DigestField::kOptimizers, 12, 80)}),
      kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what == "learning rate 0.01 on rank 3, 0.1 on ranks 0-2, since step 12");
  CHECK(finding.ranks == RankList{3});
  CHECK(finding.step == 12);
  CHECK(finding.last_step == 91);
  CHECK(finding.occurrences == 80);
  CHECK(finding.subject == "learning rate");
  CHECK(fact_in(finding, "field") == text_of("learning_rate"));
  CHECK(fact_in(finding, "value_per_rank") ==
        list_of({std::string("3: 0.01"), std::string("0-2: 0.1")}));
  CHECK(fact_in(finding, "minority_ranks") == ranks_of({3}));
  CHECK(fact_in(finding, "since_step") == FactValue(std::int64_t{12}));
  CHECK(finding.fixes.at(0).text == "step the scheduler on every rank, as often");
  CHECK(finding.fixes.at(1).text.starts_with("all-reduce the metric"));
}

TEST_CASE("rank-optimizer-differs tells between which steps it began", "[check]") {
  DigestsDiffer rate = differ(DigestField::kLearningRate, 12, 80);
  rate.equal_until = 8;
  CHECK(judge_run(with({rate}), kId).at(0).what.ends_with(", since one of steps 9-12"));
}

TEST_CASE("rank-optimizer-differs blames no scheduler for a rate that differs from the first step",
          "[check]") {
  const Findings findings = judge_run(with({differ(DigestField::kLearningRate, 1, 50)}), kId);
  CHECK(findings.at(0).fixes.at(0).text.starts_with("give all ranks one learning rate"));
}

TEST_CASE("rank-optimizer-differs names decay and momentum of the first group", "[check]") {
  const Findings findings = judge_run(
      with({differ(DigestField::kWeightDecay, 1, 50), differ(DigestField::kMomentum, 1, 50),
            differ(DigestField::kOptimizers, 1, 50)}),
      kId);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].subject == "weight decay");
  CHECK(fact_in(findings[1], "field") == text_of("momentum"));
  CHECK(findings[1].what == "momentum 0.01 on rank 3, 0.1 on ranks 0-2, since step 1");
}

TEST_CASE("rank-optimizer-differs names the state that one rank loaded", "[check]") {
  DigestsDiffer state = differ(DigestField::kState, 1, 50);
  state.sides = {{"4 members (fingerprint 00c0ffee)", {0}}, {"none", {1, 2, 3}}};
  const Findings findings = judge_run(with({state}), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what ==
        "state at the first step: 4 members (fingerprint 00c0ffee) on rank 0, none on ranks 1-3, "
        "since step 1");
  CHECK(fact_in(findings[0], "field") == text_of("state"));
  CHECK(findings[0].fixes.at(0).text.starts_with("load the state of the optimizer on every rank"));
}

TEST_CASE("rank-optimizer-differs says options where only their hash differs", "[check]") {
  const Findings findings = judge_run(with({differ(DigestField::kOptimizers, 1, 50)}), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what ==
        "the type of an optimizer, an option as its second beta or eps, or those of a later group "
        "differ between ranks since step 1");
  CHECK(fact_in(findings[0], "field") == text_of("options"));
  CHECK(fact_in(findings[0], "value_per_rank") == text_of("absent"));
}

TEST_CASE("rank-optimizer-differs takes members at once and each field for itself", "[check]") {
  const Findings findings =
      judge_run(with({differ(DigestField::kMembers, 1, 1), differ(DigestField::kSkippedSteps, 7, 2),
                      differ(DigestField::kLossScale, 8, 2)}),
                kId);
  REQUIRE(findings.size() == 3);
  CHECK(fact_in(findings[0], "field") == text_of("members"));
  CHECK(fact_in(findings[1], "field") == text_of("loss_scale"));
  CHECK(fact_in(findings[2], "field") == text_of("skipped_steps"));
  CHECK(findings[1].fingerprint != findings[2].fingerprint);
  CHECK(findings[2].fixes.at(0).text.starts_with("reduce what decides"));
}

TEST_CASE("rank-optimizer-differs tells factors of losses that nothing divides out", "[check]") {
  DigestsDiffer scale = differ(DigestField::kLossScale, 1, 50);
  scale.sides = {{"2", {3}}, {"1", {0, 1, 2}}};
  RanksComparedEvent run = with({scale});
  ReductionStep step = {.step = 1, .sampled = 6, .calls = 6, .ratio = 1.0};
  SECTION("weights") {
    run.cohorts[0].reductions = {step, step};
    const Finding finding = judge_run(run, kId).at(0);
    CHECK(finding.what == "loss multiplied by 2 on rank 3, 1 on ranks 0-2, since step 1");
    CHECK(finding.why.ends_with("a sample of rank 3 weighs 2 times as much as one of ranks 0-2"));
    CHECK(finding.fixes.at(0).text == "multiply the loss by one number on all ranks");
    CHECK(finding.subject == "loss scale");
  }
  SECTION("by whose sum the gradients are divided") {
    step.ratio = 4.0 / 5;
    run.cohorts[0].reductions = {step, step};
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("which each rank divides out of what it steps with") {
    step.differing = 6;
    run.cohorts[0].reductions = {step, step};
    CHECK(judge_run(run, kId).at(0).what.starts_with("loss scale 2 on rank 3"));
  }
}

TEST_CASE("rank-optimizer-differs names the rank that steps once more", "[check]") {
  DigestsDiffer extra = differ(DigestField::kSkippedSteps, 10, 30);
  extra.sides = {{"0", {0, 1, 2}}, {"-1", {3}}};
  const Findings findings = judge_run(with({extra}), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what ==
        "number of steps without a backward 0 on ranks 0-2, 1 on rank 3, since step 10");
  CHECK(findings[0].ranks == RankList{3});
  CHECK(fact_in(findings[0], "field") == text_of("extra_steps"));
  CHECK(findings[0].fixes.at(0).text.starts_with("call step() once"));
}

TEST_CASE("rank-optimizer-differs tells of averages without a step", "[check]") {
  DigestsDiffer steps = differ(DigestField::kOptimizerSteps, 13, 40);
  steps.sides = {{"49", {3}}, {"62", {0, 1, 2}}};
  steps.by_calls = GENERATE(false, true);
  const Finding finding = judge_run(with({steps}), kId).at(0);
  CHECK(finding.what == "number of optimizer steps 49 on rank 3, 62 on ranks 0-2, since step 13");
  CHECK((finding.why.find("some took part in averages") != std::string::npos) == steps.by_calls);
  CHECK(finding.fixes.at(0).text.starts_with("step on every rank") == steps.by_calls);
}

TEST_CASE("rank-optimizer-differs weighs less where gradients are not averaged", "[check]") {
  RanksComparedEvent run = with({differ(DigestField::kLearningRate, 1, 50)});
  exchange_parameters(run);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
  exchange_nothing(run);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kWarning);
  run.cohorts[0].equal_at_start = false;
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
}

TEST_CASE("rank-optimizer-differs asks for one optimizer where several options differ", "[check]") {
  DigestsDiffer rate = differ(DigestField::kLearningRate, 1, 50);
  DigestsDiffer decay = differ(DigestField::kWeightDecay, 1, 50);
  const auto first = [&] { return judge_run(with({rate, decay}), kId).at(0); };
  CHECK(first().fixes.at(0).text.starts_with("build the optimizer of the same type"));
  CHECK(first().why.ends_with("as where the type is another one"));
  decay.step = 30;
  CHECK(first().fixes.at(0).text.starts_with("give all ranks one learning rate"));
  rate.step = decay.step = 12;
  CHECK(first().fixes.at(0).text.starts_with("step the scheduler"));
}

TEST_CASE("rank-optimizer-differs blames no scheduler at the first step of an optimizer",
          "[check]") {
  DigestsDiffer rate = differ(DigestField::kLearningRate, 2, 50);
  rate.of_new_optimizer = true;
  CHECK(judge_run(with({rate}), kId).at(0).fixes.at(0).text.starts_with("give all ranks one"));
}

TEST_CASE("rank-optimizer-differs stays silent", "[check]") {
  SECTION("on one step alone") {
    CHECK(judge_run(with({differ(DigestField::kLearningRate, 5, 1)}), kId).empty());
  }
  SECTION("on fields that are of no optimizer") {
    CHECK(judge_run(
              with({differ(DigestField::kBackwards, 5, 9), differ(DigestField::kGradients, 5, 9)}),
              kId)
              .empty());
  }
  SECTION("on a rank alone") {
    RanksComparedEvent run = with({differ(DigestField::kLearningRate, 1, 50)});
    run.cohorts[0].ranks = {3};
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("where all agree") { CHECK(judge_run(four_ranks(), kId).empty()); }
}

}  // namespace ddpscope::test::rank_optimizer_differs_test
