#include "tests/support/catch.h"
#include "tests/support/reducer_events.h"

namespace ddpscope::test::grad_not_reduced_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "body.weight"},
                                      {.id = 2, .path = "body.bias"}};
}  // namespace

TEST_CASE("grad-not-reduced reports a static graph whose averages were never asked for",
          "[check]") {
  Program program("grad-not-reduced");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  program.backward({1, 2});
  program.send_now(only_counted({1, 2}));
  CHECK(program.findings.empty());
  SECTION("once the optimizer has used the gradients") { program.step(1); }
  SECTION("once the next pass begins") {
    program.send_now(reducer(ReducerStage::kAbandoned));
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 1);
  CHECK(finding.phase == Phase::kReduce);
  CHECK(finding.model == "net");
  CHECK(finding.op == "c10d::Reducer");
  CHECK(finding.what == "2 gradients of this rank's own were used, on 2 ranks: static_graph");
  CHECK(cause_of(finding) == "static_graph");
  CHECK(fact_of<std::int64_t>(finding, "parameters_count") == 2);
  CHECK(fact_of<bool>(finding, "reducer_present"));
}

TEST_CASE("grad-not-reduced stays silent", "[check]") {
  Program program("grad-not-reduced");
  program.attach(1, kNet);
  program.attach(2, {{.id = 3, .path = "weight"}});
  program.optimizer(1, {1, 2});
  program.optimizer(2, {3});
  SECTION("when delay_all_reduce() came before the step") {
    program.send_now(only_counted({1, 2}));
    program.send_now(reducer(ReducerStage::kFinished));
    program.step(1);
  }
  SECTION("on a Reducer of one rank") {
    ReducerEvent alone = only_counted({1, 2});
    alone.ranks = 1;
    program.send_now(std::move(alone));
    program.step(1);
  }
  SECTION("while only the optimizer of another model steps") {
    program.send_now(only_counted({1, 2}));
    program.step(2);
  }
  SECTION("on a Reducer that waits for gradients: grad-missing") {
    program.send_now(unfinished({1, 2}, {2}));
    program.step(1);
  }
  SECTION("when events were lost, perhaps the end of the pass") {
    program.send_now(only_counted({1, 2}));
    program.drop_events();
    program.step(1);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::grad_not_reduced_test
