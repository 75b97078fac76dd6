// grad-not-reduced where calls were of the parameters, or left their results on one rank.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::averaged_parameters_test {
namespace {
Finding judged(const ReductionStep& step, bool averages) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].averages = averages;
  run.cohorts[0].reductions = {step, step};
  ++run.cohorts[0].reductions[1].step;
  return judge_run(run, "grad-not-reduced").at(0);
}
}  // namespace

TEST_CASE("grad-not-reduced tells of parameters that are averaged in place of gradients",
          "[check]") {
  ReductionStep step = differing_step(/*calls=*/6);
  step.as_they_arrived = 6;
  step.to_all = step.of_parameters = true;
  const Finding finding = judged(step, /*averages=*/false);
  CHECK(finding.severity == Severity::kWarning);
  CHECK(fact_in(finding, "cause") == text_of("none_seen"));
  CHECK(finding.why ==
        "6 collectives were issued in that step, of the parameters themselves and not of their "
        "gradients: each rank steps with its own");
  CHECK(finding.fixes.at(0).text.starts_with("reduce `p.grad()` in place of `p`"));
  for (const Fix& fix : finding.fixes) CHECK(fix.text.find("copy") == std::string::npos);
  step.of_parameters = false;
  CHECK(fact_in(judged(step, false), "cause") == text_of("copy_reduced"));
}

TEST_CASE("grad-not-reduced says what a reduction to one rank leaves the others", "[check]") {
  ReductionStep step = differing_step(/*calls=*/6);
  step.to_one_rank = true;
  CHECK(judged(step, true).why.ends_with("step with what it left them, which is no sum"));
  step.as_they_arrived = 6;
  CHECK(judged(step, true).why.ends_with("step with what they had"));
}

TEST_CASE("grad-not-reduced names what no call held, or what was not copied back", "[check]") {
  ReductionStep step = differing_step(/*calls=*/6);
  step.differing = step.as_they_arrived = 2;
  CHECK(judged(step, true)
            .why.ends_with("and fc.weight is as it had arrived on some rank: in no call, not "
                           "copied back or not waited for"));
}

}  // namespace ddpscope::test::averaged_parameters_test
