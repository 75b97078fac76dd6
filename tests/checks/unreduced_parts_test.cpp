// grad-not-reduced where each rank steps a part of the parameters, or takes parts of gradients.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::unreduced_parts_test {
namespace {
/// Of ranks that were given something of all, and stepped with other gradients.
RanksComparedEvent parting(std::int64_t steps) {
  RanksComparedEvent run = four_ranks();
  exchange_parameters(run);
  for (std::int64_t step = 1; step <= steps; ++step) {
    run.cohorts[0].reductions.push_back({.step = step,
                                         .sampled = 6,
                                         .calls = 2,
                                         .backwards = 1,
                                         .reduces_last = true,
                                         .differing = 6,
                                         .to_all = true});
  }
  return run;
}

Severity severity_of(const RanksComparedEvent& run) {
  return judge_run(run, "grad-not-reduced").at(0).severity;
}
}  // namespace

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

namespace {
/// Each of four ranks steps some of eight parameters, one with what it computed alone.
RanksComparedEvent of_owners(std::int64_t steps, std::int64_t of_owner = 1) {
  RanksComparedEvent run = four_ranks();
  for (std::int64_t step = 1; step <= steps; ++step) {
    run.cohorts[0].owned.push_back({.step = step,
                                    .sampled = 8,
                                    .calls = 7,
                                    .backwards = 1,
                                    .reduces_last = true,
                                    .of_owner = of_owner,
                                    .first_of_owner = {.model = "Net", .path = "fc.weight"}});
  }
  return run;
}
}  // namespace

TEST_CASE("grad-not-reduced tells of gradients that their owner alone computed", "[check]") {
  const Findings findings = judge_run(of_owners(3), "grad-not-reduced");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kError);
  CHECK(findings[0].module_path == "fc");
  CHECK(findings[0].occurrences == 3);
  CHECK(findings[0].what ==
        "1 of 8 sampled gradients is stepped with what one of 4 ranks computed alone (subset)");
  CHECK(fact_in(findings[0], "cause") == text_of("subset"));
  CHECK(judge_run(of_owners(2), "grad-not-reduced").empty());
  CHECK(judge_run(of_owners(3, /*of_owner=*/0), "grad-not-reduced").empty());
}

TEST_CASE("grad-not-reduced only warns where owners alone compute without averages", "[check]") {
  RanksComparedEvent run = of_owners(3, /*of_owner=*/8);
  SECTION("in no collective") {
    for (ReductionStep& step : run.cohorts[0].owned) step.reduces_last = false;
  }
  SECTION("of ranks that average nothing") { run.cohorts[0].averages = false; }
  SECTION("of ranks that did not begin equal") { run.cohorts[0].equal_at_start = false; }
  CHECK(severity_of(run) == Severity::kWarning);
}

TEST_CASE("grad-not-reduced warns where what is gathered never makes replicas equal", "[check]") {
  RanksComparedEvent run = parting(8);
  run.cohorts[0].reductions[4].differing = 5;
  CHECK(severity_of(run) == Severity::kWarning);
  SECTION("in eight steps or more") { run = parting(7); }
  SECTION("which were so in no later step") { run.cohorts[0].equal_steps = {0, 5}; }
  SECTION("where most differ in each step") { run.cohorts[0].reductions[4].differing = 3; }
  SECTION("where each step changes all gradients") {
    run.cohorts[0].reductions[4].as_they_arrived = 1;
  }
  SECTION("where each rank is given something of all") {
    run.cohorts[0].reductions[4].to_all = false;
  }
  SECTION("of what began equal") { run.cohorts[0].equal_at_start = false; }
  CHECK(severity_of(run) == Severity::kNote);
}

}  // namespace ddpscope::test::unreduced_parts_test
