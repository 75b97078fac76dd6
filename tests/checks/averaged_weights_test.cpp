// rank-parameters-differ where ranks average their weights now and then.
#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::averaged_weights_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "rank-parameters-differ";

/// Of ranks that part between their averages, in one tensor as far as is told.
RanksComparedEvent averaging(std::int64_t since) {
  RanksComparedEvent run = four_ranks();
  Cohort& cohort = run.cohorts[0];
  cohort.averages = false;
  cohort.values = {
      {.step = since,
       .compared = 62,
       .equal_until = since == 0 ? -1 : 0,
       .sides = {{"aa", {1}}, {"bb", {0, 2, 3}}},
       .tensors = {{.model = "Net", .path = "trunk.conv.weight", .requires_grad = true}},
       .differing = 1,
       .module_path = "trunk.conv"}};
  return run;
}
}  // namespace

TEST_CASE("rank-parameters-differ tells what an average of weights leaves out", "[check]") {
  const bool parted_at_start = GENERATE(false, true);
  RanksComparedEvent run = averaging(parted_at_start ? 0 : 2);
  run.cohorts[0].equal_steps = {0};
  run.cohorts[0].partly_equal_steps = {9, 17};
  run.cohorts[0].never_averaged = run.cohorts[0].values.front();
  run.cohorts[0].never_averaged->step = 9;
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == (parted_at_start ? 2 : 1));
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.step == 9);
  CHECK(finding.module_path == "trunk.conv");
  CHECK(finding.subject == "weight");
  CHECK(finding.what ==
        "1 of 62 parameters still differs between ranks when step 9 began and others were equal "
        "again (not_averaged)");
  CHECK(finding.why.ends_with(
      "made the others equal in 2 compared steps, the last step 17; these were not in any of "
      "them"));
  CHECK(fact_in(finding, "cause") == text_of("not_averaged"));
  CHECK(finding.fixes.at(0).text == "average these with the others");
  CHECK(finding.fixes.at(1).applicability == Applicability::kNeedsDecision);
}

TEST_CASE("rank-parameters-differ tells what is not sent to ranks that step nothing", "[check]") {
  RanksComparedEvent run = averaging(2);
  ValuesDiffer sent = run.cohorts[0].values.front();
  sent.sides = {{"", {1, 2}}, {"", {0}}};
  run.cohorts[0].values.clear();
  run.cohorts[0].never_sent = sent;
  run.cohorts[0].averages = GENERATE(true, false);
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].ranks == RankList{0, 1, 2});
  CHECK(findings[0].subject == "weight");
  CHECK(findings[0].what ==
        "1 of 62 parameters stays as at the start on ranks 1-2, while rank 0 trains and the others "
        "are sent (not_averaged)");
  CHECK(findings[0].why.starts_with("ranks 1-2 step no optimizer"));
  CHECK(findings[0].fixes.at(0).text == "send these with the others");
}

TEST_CASE("rank-parameters-differ tells of ranks that take over nothing they are sent", "[check]") {
  RanksComparedEvent run = averaging(2);
  ValuesDiffer sent = run.cohorts[0].values.front();
  sent.sides = {{"", {1}}, {"", {0}}};
  sent.compared = sent.differing = 6;
  run.cohorts[0].values.clear();
  run.cohorts[0].never_sent = sent;
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].what ==
        "6 of 6 parameters stay as at the start on rank 1, while rank 0 trains (not_averaged)");
  CHECK(findings[0].why.ends_with("in each step, and none of it comes into them"));
  CHECK(findings[0].fixes.at(0).text.starts_with("copy what is received"));
}

TEST_CASE("rank-parameters-differ tells of averages that never come back, three times", "[check]") {
  RanksComparedEvent run = averaging(2);
  run.cohorts[0].dropped_steps = {5, 9};
  CHECK(fact_in(judge_run(run, kId).at(0), "cause") == text_of("drift"));
  run.cohorts[0].dropped_steps.push_back(13);
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].step == 5);
  CHECK(findings[0].why.starts_with("so in 3 steps; in each compared step"));
  CHECK(fact_in(findings[0], "cause") == text_of("not_averaged"));
}

TEST_CASE("rank-parameters-differ tells of weights that are summed, three times", "[check]") {
  RanksComparedEvent run = averaging(2);
  run.cohorts[0].summed_steps = {9, 17};
  CHECK(fact_in(judge_run(run, kId).at(0), "cause") == text_of("drift"));
  run.cohorts[0].summed_steps.push_back(25);
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].step == 9);
  CHECK(findings[0].what ==
        "the parameters, equal again when step 9 began, were the sum of those of 4 ranks and not "
        "the mean (summed)");
  CHECK(findings[0].fixes.at(0).text.starts_with("divide the weights by the number of ranks"));
}

TEST_CASE("rank-parameters-differ tells of averages of weights that come no more", "[check]") {
  RanksComparedEvent run = averaging(2);
  Cohort& cohort = run.cohorts[0];
  cohort.equal_steps = {0, 11, 21};
  bool is_told = true;
  SECTION("in steps in which they were due") {}
  SECTION("not where they came once more, later") {
    cohort.equal_steps.push_back(61);
    is_told = false;
  }
  SECTION("not where they never came every so many steps") {
    cohort.equal_steps = {0, 8, 21};
    is_told = false;
  }
  SECTION("not where they were equal all the time") {
    cohort.equal_steps = {0, 1, 2};
    is_told = false;
  }
  SECTION("not at once while they train") {
    run.live = true;
    is_told = false;
  }
  SECTION("nor where gradients are averaged") {
    cohort.averages = true;
    is_told = false;
  }
  for (std::int64_t step = 2; step <= 60; ++step) {
    if (std::ranges::count(cohort.equal_steps, step) == 0) cohort.unequal_steps.push_back(step);
  }
  const Finding finding = judge_run(run, kId).at(0);
  CHECK((fact_in(finding, "cause") == text_of("no_longer_averaged")) == is_told);
  if (!is_told) return;
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.step == 31);
  CHECK(finding.what ==
        "the parameters, equal again every 10 steps until step 21, still differ between ranks when "
        "step 31 began (no_longer_averaged)");
  CHECK(fact_in(finding, "last_equal_step") == FactValue(std::int64_t{21}));
  CHECK(finding.why.find("in 3 compared steps since then") != std::string::npos);
}

TEST_CASE("rank-parameters-differ tells weights that are those of one rank each time", "[check]") {
  RanksComparedEvent run = four_ranks();
  exchange_parameters(run);
  run.cohorts[0].sent_steps = {5, 9, 13, 17, 21, 25, 29};
  run.cohorts[0].sender = 2;
  CHECK(judge_run(run, kId).empty());
  run.cohorts[0].sent_steps.push_back(33);
  const Finding finding = judge_run(run, kId).at(0);
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.step == 5);
  CHECK(finding.what ==
        "the parameters, equal again when step 5 began, were those of rank 2 alone (not_averaged)");
  CHECK(finding.why.find("so in 8 steps") != std::string::npos);
}

}  // namespace ddpscope::test::averaged_weights_test
