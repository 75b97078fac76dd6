// Where replicas that were equal part, by what is known of the steps between.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"
#include "tests/support/drifted_values.h"

namespace ddpscope::test::parameter_drift_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "rank-parameters-differ";

/// Gradients were compared in the steps 4 to 7, and equal but for `differing` of the last.
RanksComparedEvent with_gradients(const ValuesDiffer& values, std::int64_t differing) {
  RanksComparedEvent run = with_values(values);
  for (const std::int64_t step : {4, 5, 6, 7}) {
    run.cohorts[0].reductions.push_back(
        {.step = step, .sampled = 6, .calls = 6, .differing = step == 7 ? differing : 0});
  }
  return run;
}
}  // namespace

TEST_CASE("rank-parameters-differ names the ranks that alone loaded a checkpoint", "[check]") {
  const std::int64_t step = GENERATE(3, 4, 8, 9);
  RanksComparedEvent run = with_values(drift_of_one());
  run.cohorts[0].loads = {{.step = step, .ranks = {1}}};
  const Finding finding = judge_run(run, kId).at(0);
  const bool is_between = step == 4 || step == 8;
  CHECK(fact_in(finding, "differing_input") == text_of(is_between ? "load" : "absent"));
  CHECK(finding.fixes.at(0).text.starts_with("load the checkpoint") == is_between);
  const bool is_told = finding.why.find("only rank 1 read parameters from") != std::string::npos;
  CHECK(is_told == is_between);
}

TEST_CASE("rank-parameters-differ asks for no average where gradients were equal", "[check]") {
  RanksComparedEvent run = with_gradients(drift_of_one(), /*differing=*/0);
  bool are_equal = false;
  SECTION("in each step since") { are_equal = true; }
  SECTION("not where one was not compared") { run.cohorts[0].reductions.pop_back(); }
  SECTION("nor where they differed") { run = with_gradients(drift_of_one(), /*differing=*/1); }
  const Finding finding = judge_run(run, kId).at(0);
  CHECK(finding.fixes.at(0).text.starts_with("average every gradient") != are_equal);
  const bool is_told = finding.why.find("stepped with equal gradients") != std::string::npos;
  CHECK(is_told == are_equal);
  CHECK(finding.severity == Severity::kError);
}

TEST_CASE("rank-parameters-differ tells rounding from the rest", "[check]") {
  ValuesDiffer values = drift_of_one();
  values.estimate = {{.step = 8, .path = "trunk.conv.weight", .norm = 3e-8, .relative = 4e-8}};
  bool is_rounding = false;
  std::int64_t differing = 0;
  SECTION("of equal gradients") { is_rounding = true; }
  SECTION("not of a larger difference") { values.estimate[0].relative = 1e-4; }
  SECTION("nor where gradients differed") { differing = 1; }
  RanksComparedEvent run = with_gradients(values, differing);
  const Finding finding = judge_run(run, kId).at(0);
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what.starts_with("1 of 62 parameters differ between ranks by 4.0e-08 of their") ==
        is_rounding);
  CHECK(finding.fixes.at(0).text.starts_with("keep a copy") == is_rounding);
  if (!is_rounding) return;
  run.live = true;
  CHECK(judge_run(run, kId).size() == 1);
  for (RankCounts& counts : run.cohorts[0].counts) counts.step = 20;
  CHECK(judge_run(run, kId).empty());
  run.live = false;
  run.cohorts[0].equal_steps = {0, 4, 11};
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
}

}  // namespace ddpscope::test::parameter_drift_test
