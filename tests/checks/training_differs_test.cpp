// rank-model-differs and module-mode where ranks train alike parameters in other ways.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::training_differs_test {
namespace {
RanksComparedEvent with_operators() {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].operators = {.step = 1,
                              .last_step = 64,
                              .steps = 4,
                              .parts = {{"net.b", "aten::relu", {0, 2, 3}},
                                        {"net.b", "aten::tanh", {1}},
                                        {"net.c", "aten::pow", {1}}}};
  return run;
}

RanksComparedEvent with_modes() {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].modes = {.step = 2,
                          .last_step = 64,
                          .steps = 8,
                          .parts = {{"net.norm1", "", {2}}, {"net.norm2", "", {2}}}};
  return run;
}
}  // namespace

TEST_CASE("rank-model-differs notes operators that some ranks alone have", "[check]") {
  const Findings findings = judge_run(with_operators(), "rank-model-differs");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kNote);
  CHECK(findings[0].ranks == RankList{1});
  CHECK(findings[0].module_path == "net");
  CHECK(findings[0].what ==
        "operators of the losses differ between ranks: aten::tanh in net.b, aten::pow in net.c on "
        "rank 1 alone; aten::relu in net.b on ranks 0,2-3 alone (operators)");
  CHECK(fact_in(findings[0], "cause") == text_of("operators"));
}

TEST_CASE("rank-model-differs is silent on operators", "[check]") {
  RanksComparedEvent run = with_operators();
  SECTION("of ranks that average nothing") { exchange_nothing(run); }
  SECTION("that follow from a mode") { run.cohorts[0].modes = with_modes().cohorts[0].modes; }
  SECTION("that all have") { run.cohorts[0].operators.parts.clear(); }
  CHECK(judge_run(run, "rank-model-differs").empty());
}

TEST_CASE("module-mode tells layers that some ranks have in eval mode", "[check]") {
  const Findings findings = judge_run(with_modes(), "module-mode");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].ranks == RankList{2});
  CHECK(findings[0].what ==
        "2 layers (net.norm1 the first) are in eval mode on rank 2 and in training mode on the "
        "others (rank_differs)");
  CHECK(fact_in(findings[0], "modules_count") == FactValue(std::int64_t{2}));
}

TEST_CASE("module-mode is silent on modes of ranks that average nothing", "[check]") {
  RanksComparedEvent run = with_modes();
  exchange_nothing(run);
  CHECK(judge_run(run, "module-mode").empty());
}

}  // namespace ddpscope::test::training_differs_test
