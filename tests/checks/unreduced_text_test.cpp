// What grad-not-reduced says of the calls that a step had.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::unreduced_text_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)

/// Four ranks with such steps from 2 to 4.
RanksComparedEvent with(const ReductionStep& step) {
  RanksComparedEvent run = four_ranks();
  for (const std::int64_t number : {2, 3, 4}) {
    run.cohorts[0].reductions.push_back(step);
    run.cohorts[0].reductions.back().step = number;
  }
  return run;
}

Finding finding_in(const RanksComparedEvent& run) {
  return judge_run(run, "grad-not-reduced").at(0);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("averages of some of the weights are local updates", "[check]") {
  ReductionStep step = differing_step();
  step.as_they_arrived = 6;
  RanksComparedEvent run = with(step);
  exchange_parameters(run);
  for (ReductionStep& one : run.cohorts[0].reductions) one.calls = one.step == 4 ? 4 : 0;
  run.cohorts[0].partly_equal_steps = {5, 13};
  const Finding finding = finding_in(run);
  CHECK(finding.severity == Severity::kNote);
  CHECK(fact_in(finding, "cause") == text_of("none_seen"));
  CHECK(finding.why.ends_with(
      "some of the parameters were equal again when step 5 began, and after 8 more"));
}

TEST_CASE("rounding is told from other values", "[check]") {
  const auto [dtype, difference, is_rounding] =
      GENERATE(table<std::string, double, bool>({{"float32", 8e-8, true},
                                                 {"float32", 1e-5, false},
                                                 {"float64", 8e-8, false},
                                                 {"float64", 1e-16, true},
                                                 {"bfloat16", 1e-3, false}}));
  ReductionStep step = differing_step();
  step.largest_difference = difference;
  step.first_differing.dtype = dtype;
  const Finding finding = finding_in(with(step));
  CHECK(finding.severity == Severity::kError);
  CHECK(has(finding.why, "rounding, as where each rank adds") == is_rounding);
  CHECK(finding.fixes.at(0).text.starts_with("add in one order on all ranks") == is_rounding);
}

TEST_CASE("what all ranks were given and none steps with is no note", "[check]") {
  ReductionStep step = differing_step();
  step.as_they_arrived = 6;
  step.to_all = true;
  RanksComparedEvent run = with(step);
  exchange_parameters(run);
  auto severity = Severity::kNote;
  SECTION("of copies of gradients") { severity = Severity::kWarning; }
  SECTION("not of what other ranks alone are sent") {
    for (ReductionStep& one : run.cohorts[0].reductions) one.to_all = false;
  }
  SECTION("nor where parameters were equal again") { run.cohorts[0].equal_steps = {0, 8}; }
  SECTION("nor of no replicas") { run.cohorts[0].equal_at_start = false; }
  const Finding finding = finding_in(run);
  CHECK(fact_in(finding, "cause") == text_of("copy_reduced"));
  CHECK(finding.severity == severity);
}

TEST_CASE("gathers of other sizes average nothing of equal replicas", "[check]") {
  ReductionStep step = differing_step();
  step.as_they_arrived = 6;
  step.reduces_last = step.may_be_copies = false;
  step.to_one_rank = GENERATE(false, true);
  RanksComparedEvent run = with(step);
  exchange_parameters(run);
  const Finding finding = finding_in(run);
  CHECK(fact_in(finding, "cause") == text_of("early"));
  CHECK(finding.severity == (step.to_one_rank ? Severity::kWarning : Severity::kNote));
}

TEST_CASE("ranks that average nothing beside as many that do are an error", "[check]") {
  ReductionStep step = differing_step();
  step.as_they_arrived = 6;
  step.may_be_copies = false;
  RanksComparedEvent run = with(step);
  exchange_parameters(run);
  Cohort& cohort = run.cohorts[0];
  cohort.broadcasts_at_start = true;
  Cohort other{.ranks = {4, 5, 6, 7}, .averages = true};
  auto severity = Severity::kNote;
  SECTION("of equal replicas") { severity = Severity::kError; }
  SECTION("not of others") { cohort.equal_at_start = false; }
  SECTION("nor of those that nothing made equal") { cohort.broadcasts_at_start = false; }
  SECTION("nor beside fewer of them") { other.ranks = {4, 5}; }
  SECTION("nor beside what averages nothing either") { other.averages = false; }
  run.cohorts.push_back(other);
  const Finding finding = finding_in(run);
  CHECK(finding.severity == severity);
  CHECK(has(finding.why, "of as many replicas ranks 4-7 average theirs") ==
        (severity == Severity::kError));
}

TEST_CASE("results that are read too early are no accumulation", "[check]") {
  ReductionStep step = differing_step();
  step.reduces_last = false;
  step.mixed = GENERATE(5, 3);
  const Finding finding = finding_in(with(step));
  CHECK(fact_in(finding, "cause") == text_of("early"));
  CHECK(has(finding.why, "read before its wait() has returned") == (step.mixed == 5));
  CHECK(finding.fixes.at(0).text.starts_with("wait() for a collective") == (step.mixed == 5));
}

TEST_CASE("averages of one rank each are none", "[check]") {
  ReductionStep step = differing_step();
  step.as_they_arrived = 6;
  step.with_itself = true;
  const Finding finding = finding_in(with(step));
  CHECK(finding.severity == Severity::kError);
  CHECK(fact_in(finding, "cause") == text_of("none_seen"));
  CHECK(has(finding.why, "over process groups of one rank each"));
  CHECK(finding.fixes.at(0).text.starts_with("average over a process group of all ranks"));
}

TEST_CASE("the module of gradients that differ beside others is told", "[check]") {
  ReductionStep step = differing_step();
  step.differing = step.as_they_arrived = 2;
  step.differing_module = "trunk.fc";
  const Finding finding = finding_in(with(step));
  CHECK(finding.module_path == "trunk.fc");
  CHECK(finding.subject.empty());
}

}  // namespace ddpscope::test::unreduced_text_test
