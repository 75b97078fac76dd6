// grad-not-reduced where each rank steps a part of the parameters.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::unreduced_parts_test {

TEST_CASE("grad-not-reduced tells of parts that each rank steps by itself", "[check]") {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].averages = false;
  run.cohorts[0].unreduced_parts = {1, 2, 3};
  CHECK(judge_run(run, "grad-not-reduced").empty());
  run.cohorts[0].unreduced_parts.push_back(4);
  const Findings findings = judge_run(run, "grad-not-reduced");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].occurrences == 4);
  CHECK(findings[0].last_step == 4);
  CHECK(findings[0].what ==
        "each of 4 ranks steps its part of the parameters with its own gradients alone "
        "(none_seen)");
  CHECK(fact_in(findings[0], "cause") == text_of("none_seen"));
}

}  // namespace ddpscope::test::unreduced_parts_test
