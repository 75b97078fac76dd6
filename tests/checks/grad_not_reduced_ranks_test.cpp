// grad-not-reduced over the ranks of a run.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::grad_not_reduced_ranks_test {
namespace {
Findings judged_over_ranks(std::vector<ReductionStep> steps, std::vector<Finding*> of_ranks = {}) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].reductions = std::move(steps);
  return judge_ranks(run, {.enabled = {"grad-not-reduced"}, .of_ranks = std::move(of_ranks)})
      .findings;
}

std::vector<ReductionStep> differing(const ReductionStep& step) {
  ReductionStep equal = step;
  equal.step = 1;
  equal.differing = equal.as_they_arrived = 0;
  std::vector<ReductionStep> steps = {equal, step, step, step};
  steps[2].step = step.step + 1;
  steps[3].step = step.step + 2;
  return steps;
}
}  // namespace

TEST_CASE("grad-not-reduced tells why gradients differ between ranks", "[check]") {
  ReductionStep step = differing_step();
  std::string cause;
  SECTION("nothing is sent") {
    step.calls = 0;
    cause = "none_seen";
  }
  SECTION("some of them are left out") {
    step.differing = step.as_they_arrived = 2;
    cause = "subset";
  }
  SECTION("what was reduced does not come back") {
    step.as_they_arrived = 6;
    cause = "copy_reduced";
  }
  SECTION("they were reduced before the last backward") {
    step.backwards = 4;
    step.as_they_arrived = 6;
    step.reduces_last = false;
    cause = "early";
  }
  const Findings findings = judged_over_ranks(differing(step));
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what == std::to_string(step.differing) +
                            " of 6 sampled gradients differ between ranks at step() (" + cause +
                            ")");
  CHECK(finding.step == 2);
  CHECK(finding.last_step == 4);
  CHECK(finding.phase == Phase::kReduce);
  CHECK(finding.ranks == RankList{0, 1, 2, 3});
  CHECK(finding.model == "Net");
  CHECK(fact_in(finding, "cause") == text_of(cause.c_str()));
  CHECK(fact_in(finding, "sampled_count") == FactValue(std::int64_t{6}));
  CHECK(fact_in(finding, "largest_relative_difference") == FactValue(0.75));
  CHECK(fact_in(finding, "first_path") == text_of("fc.weight"));
}

TEST_CASE("grad-not-reduced takes calls of other sizes for no copies", "[check]") {
  ReductionStep step = differing_step();
  step.as_they_arrived = 6;
  step.may_be_copies = false;
  CHECK(fact_in(judged_over_ranks(differing(step)).at(0), "cause") == text_of("subset"));
}

TEST_CASE("grad-not-reduced takes calls of a few numbers for no exchange", "[check]") {
  ReductionStep step = differing_step();
  step.as_they_arrived = 6;
  step.may_be_copies = false;
  step.of_few_numbers = true;
  const Findings findings = judged_over_ranks(differing(step));
  CHECK(fact_in(findings.at(0), "cause") == text_of("none_seen"));
  CHECK(findings[0].why == "4 collectives were issued in that step, of a few numbers alone");
}

TEST_CASE("grad-not-reduced is told by the first step that exchanges something", "[check]") {
  ReductionStep early = differing_step();
  early.as_they_arrived = 6;
  early.reduces_last = false;
  std::vector<ReductionStep> steps = differing(early);
  steps[1].calls = 0;  // nothing to average yet
  const Finding finding = judged_over_ranks(steps).at(0);
  CHECK(finding.step == 2);
  CHECK(fact_in(finding, "cause") == text_of("early"));
  CHECK(finding.why ==
        "of step 3: 4 collectives were issued in that step, and none after its backward had begun: "
        "what that adds is not reduced");
}

TEST_CASE("grad-not-reduced tells a mean that one rank keeps", "[check]") {
  ReductionStep step = differing_step();
  step.to_one_rank = true;
  const Findings findings = judged_over_ranks(differing(step));
  CHECK(findings.at(0).fixes.at(0).text == "all-reduce in place of reduce or gather");
}

TEST_CASE("grad-not-reduced of what is averaged too early is no note", "[check]") {
  ReductionStep early = differing_step();
  early.as_they_arrived = 6;
  early.reduces_last = false;
  early.reduce = ReduceKind::kSum;
  Severity severity = Severity::kNote;
  bool is_equal_at_start = true;
  SECTION("of the sizes of gradients") { severity = Severity::kWarning; }
  SECTION("but of other sizes") { early.may_be_copies = false; }
  SECTION("but of what is only sent") { early.reduce = ReduceKind::kNone; }
  SECTION("but of no replicas") { is_equal_at_start = false; }
  SECTION("but after the backward had begun") { early.reduces_last = true; }
  RanksComparedEvent run = four_ranks();
  exchange_parameters(run);
  run.cohorts[0].equal_at_start = is_equal_at_start;
  run.cohorts[0].reductions = differing(early);
  CHECK(judge_run(run, "grad-not-reduced").at(0).severity == severity);
}

TEST_CASE("grad-not-reduced takes what makes parameters equal again for local updates", "[check]") {
  ReductionStep step = differing_step();
  step.calls = 0;
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].reductions = differing(step);
  const auto findings = [&run] { return judge_run(run, "grad-not-reduced"); };
  SECTION("with the steps between, where it happened twice") {
    run.cohorts[0].equal_steps = {0, 1, 9, 15};
    CHECK(findings().at(0).severity == Severity::kNote);
    CHECK(findings()[0].why.ends_with("equal again when step 9 began, and after 6 more"));
  }
  SECTION("or not where something was exchanged in between") {
    run.cohorts[0].equal_steps = {0, 1, 9};
    for (ReductionStep& each : run.cohorts[0].reductions) each.calls = 4;
    CHECK(findings().at(0).severity == Severity::kError);
  }
  SECTION("or not where it is long until then") {
    run.cohorts[0].equal_steps = {0, 1, 1009};
    CHECK(findings().at(0).severity == Severity::kError);
  }
  SECTION("and waits for it while the ranks train") {
    run.live = true;
    for (RankCounts& counts : run.cohorts[0].counts) counts.step = 20;
    CHECK(findings().empty());
    for (RankCounts& counts : run.cohorts[0].counts) counts.step = 40;
    CHECK(findings().at(0).severity == Severity::kError);
  }
}

TEST_CASE("grad-not-reduced blames no call for a gradient that was changed behind it", "[check]") {
  ReductionStep step = differing_step();
  step.differing = 1;
  const Findings findings = judged_over_ranks(differing(step));
  REQUIRE(findings.size() == 1);
  CHECK(fact_in(findings[0], "cause") == text_of("absent"));
  CHECK(findings[0].why.find("each of these gradients changed on its way") != std::string::npos);
}

TEST_CASE("grad-not-reduced is silent once ranks made other numbers of steps", "[check]") {
  const std::int64_t apart = GENERATE(1, 100);
  RanksComparedEvent run = four_ranks();
  const ReductionStep step = differing_step();
  run.cohorts[0].reductions = differing(step);
  run.cohorts[0].digests = {{.field = DigestField::kSkippedSteps, .step = apart}};
  CHECK(judge_run(run, "grad-not-reduced").empty() == (apart <= step.step));
}

TEST_CASE("grad-not-reduced is a note on what parts of the ranks average by themselves",
          "[check]") {
  ReductionStep step = differing_step();
  step.differs_by_part = true;
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].parts = {{0, 1}, {2, 3}};
  run.cohorts[0].reductions = differing(step);
  const Findings findings = judge_run(run, "grad-not-reduced");
  CHECK(findings.at(0).severity == Severity::kNote);
  CHECK(findings[0].fixes.at(0).text.starts_with("none, where the ranks are meant"));
  for (const Fix& fix : findings[0].fixes) {
    CHECK(fix.applicability == Applicability::kNeedsDecision);
  }
  CHECK(findings[0].why.ends_with("average over groups of their own (ranks 0-1, ranks 2-3)"));
}

TEST_CASE("grad-not-reduced is a note on equal replicas that average in smaller groups alone",
          "[check]") {
  ReductionStep step = differing_step();
  step.differs_by_part = GENERATE(true, false);
  RanksComparedEvent run = four_ranks();
  Cohort& apart = run.apart.emplace(run.cohorts[0]);
  apart.parts = {{0, 1}, {2, 3}};
  apart.reductions = differing(step);
  const Findings findings = judge_run(run, "grad-not-reduced");
  REQUIRE(findings.size() == (step.differs_by_part ? 1 : 0));
  if (findings.empty()) return;
  CHECK(findings[0].severity == Severity::kNote);
  CHECK(findings[0].what == "6 of 6 sampled gradients differ between ranks at step() (split)");
  CHECK(findings[0].why.starts_with("all ranks began as equal replicas"));
  CHECK(findings[0].why.ends_with("average over groups of their own (ranks 0-1, ranks 2-3)"));
  CHECK(findings[0].fixes.at(1).text == "average over a process group of all ranks");
  CHECK(cause_of(findings[0]) == "split");
}

TEST_CASE("grad-not-reduced names no cause where collectives changed every gradient", "[check]") {
  const Findings findings = judged_over_ranks(differing(differing_step()));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "6 of 6 sampled gradients differ between ranks at step()");
  CHECK(findings[0].why.starts_with("4 collectives were issued in that step, and each of these"));
  CHECK(fact_in(findings[0], "cause") == text_of("absent"));
}

TEST_CASE("grad-not-reduced tells of gradients that grew after their average", "[check]") {
  ReductionStep step = differing_step();
  step.as_they_arrived = 6;
  step.grew_after = 6;
  step.backwards = 2;
  const Findings findings = judged_over_ranks(differing(step));
  REQUIRE(findings.size() == 1);
  CHECK(fact_in(findings[0], "cause") == text_of("early"));
  CHECK(findings[0].why ==
        "4 collectives were issued in that step, those of these gradients before the last backward "
        "that reached them: what that added is not reduced");
}

TEST_CASE("grad-not-reduced is a note where ranks exchange in other steps", "[check]") {
  ReductionStep step = differing_step();
  step.reduces_last = false;
  step.reduce = ReduceKind::kSum;
  const bool is_silent = GENERATE(true, false);
  if (is_silent) step.silent = {1, 3};
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].averages = false;
  run.cohorts[0].equal_at_start = run.cohorts[0].exchanges_tensors = true;
  run.cohorts[0].reductions = differing(step);
  const Findings findings = judge_run(run, "grad-not-reduced");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == (is_silent ? Severity::kNote : Severity::kWarning));
  CHECK(findings[0].fixes.back().text.starts_with("none, where the ranks average") == is_silent);
}

TEST_CASE("grad-not-reduced is a note where weights are drawn together now and then", "[check]") {
  ReductionStep step = differing_step();
  step.as_they_arrived = 6;
  step.reduces_last = false;
  step.reduce = ReduceKind::kSum;
  RanksComparedEvent run = four_ranks();
  exchange_parameters(run);
  run.cohorts[0].reductions = differing(step);
  const std::size_t alone = GENERATE(1, 2);  // of three
  for (std::size_t i = 1; i <= alone; ++i) run.cohorts[0].reductions[i].calls = 0;
  const bool some_become_equal = GENERATE(false, true);
  if (some_become_equal) run.cohorts[0].partly_equal_steps = {2};
  const bool is_local = alone == 2 && !some_become_equal;
  const Finding finding = judge_run(run, "grad-not-reduced").at(0);
  CHECK(finding.severity == (is_local ? Severity::kNote : Severity::kWarning));
  CHECK(cause_of(finding) == (is_local ? "none_seen" : "early"));
  const bool is_told = finding.why.find("in only 1 of 3 compared steps") != std::string::npos;
  CHECK(is_told == is_local);
}

TEST_CASE("grad-not-reduced counts the few numbers of a later step", "[check]") {
  ReductionStep step = differing_step();
  step.calls = 1;
  step.of_few_numbers = true;
  std::vector<ReductionStep> steps = differing(step);
  steps[1].calls = 0;
  const Findings findings = judged_over_ranks(std::move(steps));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].why.starts_with(
      "of step 3: 1 collective was issued in that step, of a few numbers alone"));
}

TEST_CASE("grad-not-reduced over ranks stays silent", "[check]") {
  SECTION("in a single step") {
    auto steps = differing(differing_step());
    steps[2].differing = steps[3].differing = 0;
    CHECK(judged_over_ranks(std::move(steps)).empty());
  }
  SECTION("where a rank has said why itself") {
    Finding own;
    own.id = "grad-not-reduced";
    CHECK(judged_over_ranks(differing(differing_step()), {&own}).empty());
  }
}

}  // namespace ddpscope::test::grad_not_reduced_ranks_test
