#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::rank_rng_same_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "rank-rng-same";

RanksComparedEvent same_on_all() {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].same_random = {{.step = 1,
                                 .ranks = {0, 1, 2, 3},
                                 .steps = 3,
                                 .seed = "1029",
                                 .op = "aten::dropout",
                                 .module = "trunk.drop"}};
  return run;
}
}  // namespace

TEST_CASE("rank-rng-same tells ranks that draw from equal states", "[check]") {
  const Findings findings = judge_run(same_on_all(), kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what == "all 4 ranks draw from seed 1029, in the same state in 3 surveyed steps");
  CHECK(finding.step == 1);
  CHECK(finding.phase == Phase::kForward);
  CHECK(finding.module_path == "trunk.drop");
  CHECK(finding.op == "aten::dropout");
  CHECK(finding.ranks == RankList{0, 1, 2, 3});
  CHECK(fact_in(finding, "seed") == text_of("1029"));
}

TEST_CASE("rank-rng-same is a note where the ranks average nothing, and silent otherwise",
          "[check]") {
  RanksComparedEvent run = same_on_all();
  exchange_nothing(run);
  const Findings findings = judge_run(run, kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kNote);
  CHECK(judge_run(four_ranks(), kId).empty());
}

}  // namespace ddpscope::test::rank_rng_same_test
