#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::grad_unused_rank_differs_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "grad-unused-rank-differs";

/// Rank 3 skipped the head, and hangs with the others.
RanksComparedEvent skipped_head() {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].gradients = {{.step = 58,
                               .steps = 1,
                               .parameters = {{"Net", "trunk.head.fc.weight", {0, 1, 2}, {3}},
                                              {"Net", "trunk.head.fc.bias", {0, 1, 2}, {3}},
                                              {"Net", "trunk.head.gain", {0, 1, 2}, {3}}}}};
  run.frontiers = {{.group = 5, .seq = 700, .waiting = {0, 1, 2}, .behind = {3}}};
  return run;
}
}  // namespace

TEST_CASE("grad-unused-rank-differs names the parameters, the step and the ranks", "[check]") {
  const Findings findings = judge_run(skipped_head(), kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what == "3 parameters got no gradient on rank 3 and did on ranks 0-2");
  CHECK(finding.step == 58);
  CHECK(finding.ranks == RankList{3});
  CHECK(finding.module_path == "trunk.head");
  CHECK(finding.subject.empty());
  CHECK(finding.phase == Phase::kBackward);
  CHECK(fact_in(finding, "parameters") ==
        list_of({std::string("trunk.head.fc.weight"), std::string("trunk.head.fc.bias"),
                 std::string("trunk.head.gain")}));
  CHECK(fact_in(finding, "minority_ranks") == ranks_of({3}));
  CHECK(fact_in(finding, "majority_ranks") == ranks_of({0, 1, 2}));
  CHECK(fact_in(finding, "collective_count_per_rank") ==
        list_of({std::string("0: 1000"), std::string("1: 1000"), std::string("2: 1000"),
                 std::string("3: 1000")}));
}

TEST_CASE("grad-unused-rank-differs tells a parameter that only one rank used", "[check]") {
  RanksComparedEvent run = skipped_head();
  run.cohorts[0].gradients[0].parameters = {{"Net", "head_b.weight", {0}, {1, 2, 3}}};
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "1 parameter got no gradient on ranks 1-3 and did on rank 0");
  CHECK(findings[0].module_path == "head_b");
  CHECK(findings[0].subject == "weight");
  CHECK(fact_in(findings[0], "minority_ranks") == ranks_of({0}));
}

TEST_CASE("grad-unused-rank-differs says why the ranks without lack them", "[check]") {
  RanksComparedEvent run = skipped_head();
  auto& parameters = run.cohorts[0].gradients[0].parameters;
  CHECK(judge_run(run, kId).at(0).why.starts_with("a rank that skips a gradient"));
  CHECK(fact_in(judge_run(run, kId).at(0), "cause_per_rank") == text_of("absent"));
  parameters[0].causes = {{"not_used", {3}}};
  CHECK(fact_in(judge_run(run, kId).at(0), "cause_per_rank") == text_of("absent"));
  for (GradientSide& side : parameters) side.causes = {{"not_used", {3}}};
  const Finding skipped = judge_run(run, kId).at(0);
  CHECK(skipped.why.starts_with(
      "no operator with a gradient path read them on rank 3; a rank that skips"));
  CHECK(fact_in(skipped, "cause_per_rank") == list_of({std::string("3: not_used")}));
  parameters[0].without = {2, 3};
  parameters[0].causes = {{"not_used", {2}}, {"cut", {3}}};
  const Finding each = judge_run(run, kId).at(0);
  CHECK(each.why.starts_with("a rank that skips a gradient"));
  CHECK(fact_in(each, "cause_per_rank") ==
        list_of({std::string("2: not_used"), std::string("3: cut")}));
}

TEST_CASE("grad-unused-rank-differs speaks of the parameters that the same ranks lack", "[check]") {
  RanksComparedEvent run = skipped_head();
  auto& parameters = run.cohorts[0].gradients[0].parameters;
  parameters[2].with = {3};
  parameters[2].without = {0, 1, 2};
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what ==
        "2 parameters got no gradient on rank 3 and did on ranks 0-2; "
        "1 parameter got no gradient on ranks 0-2 and did on rank 3");
  CHECK(findings[0].module_path == "trunk.head.fc");
}

TEST_CASE("grad-unused-rank-differs is a note where the collectives agree all the same",
          "[check]") {
  RanksComparedEvent run = skipped_head();
  run.frontiers.clear();
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
  run.calls_differ = {{.sides = {{.ranks = {3}}, {.ranks = {0, 1, 2}}}}};
  CHECK(judge_run(run, kId).at(0).severity == Severity::kError);
  run.calls_differ = {{.sides = {{.ranks = {7}}, {.ranks = {6}}}}};
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
}

TEST_CASE("grad-unused-rank-differs claims no average where nothing was issued", "[check]") {
  RanksComparedEvent run = skipped_head();
  run.frontiers.clear();
  const std::int64_t step = run.cohorts[0].gradients[0].step;
  run.cohorts[0].reductions = {{.step = step, .calls = 0}};
  CHECK(judge_run(run, kId).at(0).why.ends_with("no collective was issued in that step"));
  run.cohorts[0].reductions[0].calls = 1;
  const Finding zeros = judge_run(run, kId).at(0);
  CHECK(zeros.why.ends_with("counts as zero in the average"));
  CHECK(zeros.fixes.size() == 1);  // that they already bring zeros is no advice
}

TEST_CASE("grad-unused-rank-differs weighs less where gradients are not averaged", "[check]") {
  RanksComparedEvent run = skipped_head();
  exchange_parameters(run);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
}

TEST_CASE("grad-unused-rank-differs stays silent", "[check]") {
  SECTION("on equal sets") { CHECK(judge_run(four_ranks(), kId).empty()); }
  SECTION("where the sets themselves are not known") {
    RanksComparedEvent run = skipped_head();
    run.cohorts[0].gradients[0].parameters.clear();
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("once ranks made other numbers of steps") {
    RanksComparedEvent run = skipped_head();
    run.cohorts[0].digests = {{.field = DigestField::kSkippedSteps, .step = 1}};
    CHECK(judge_run(run, kId).empty());
  }
  SECTION("on a rank alone") {
    RanksComparedEvent run = skipped_head();
    run.cohorts[0].ranks = {3};
    CHECK(judge_run(run, kId).empty());
  }
}

}  // namespace ddpscope::test::grad_unused_rank_differs_test
