#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::loss_rank_weights_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "loss-rank-weights";

RanksComparedEvent unequal_counts() {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].loss_weights = {{.step = 50,
                                  .steps = 50,
                                  .ratio = 8.371,
                                  .at_step = 37,
                                  .targets = {812, 97, 500, 640.5},
                                  .backwards = 1,
                                  .op = "aten::nll_loss_nd",
                                  .module = "criterion"}};
  return run;
}
}  // namespace

TEST_CASE("loss-rank-weights tells whose targets weigh more, and how much", "[check]") {
  const Findings findings = judge_run(unequal_counts(), kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.phase == Phase::kForward);
  CHECK(finding.step == 50);
  CHECK(finding.ranks == RankList{0, 1, 2, 3});
  CHECK(finding.module_path == "criterion");
  CHECK(finding.op == "aten::nll_loss_nd");
  CHECK(finding.what ==
        "rank 1 averages the loss over 97 valid targets, rank 0 over 812; a target on rank 1 "
        "weighs 8.37 times as much");
  CHECK(finding.why.starts_with("in step 37, the median of 50 steps: "));
  CHECK(fact_in(finding, "valid_per_rank") == list_of({812.0, 97.0, 500.0, 640.5}));
  CHECK(fact_in(finding, "weight_ratio") == FactValue(8.371));
  CHECK(fact_in(finding, "reduction") == text_of("mean"));
  CHECK(fact_in(finding, "period") == FactValue(std::int64_t{1}));
  CHECK(fact_in(finding, "window_steps") == FactValue(std::int64_t{50}));
}

TEST_CASE("loss-rank-weights stays silent", "[check]") {
  SECTION("where no counts differ") { CHECK(judge_run(four_ranks(), kId).empty()); }
  SECTION("on ranks that average nothing") {
    RanksComparedEvent run = unequal_counts();
    exchange_parameters(run);
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("where gradients are weighed before they are added") {
    RanksComparedEvent run = unequal_counts();
    run.cohorts[0].reductions = {{.step = 1, .sampled = 4, .not_linear = 4},
                                 {.step = 2, .sampled = 4, .not_linear = 3},
                                 {.step = 3, .sampled = 4}};
    CHECK(judge_run(run, kId).empty());
    run.cohorts[0].reductions[1].not_linear = 1;
    CHECK(judge_run(run, kId).size() == 1);
  }
}

}  // namespace ddpscope::test::loss_rank_weights_test
