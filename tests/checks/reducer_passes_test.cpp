// What grad-missing says of a Reducer that waits for gradients.
#include "checks/cause_links.h"
#include "tests/support/catch.h"
#include "tests/support/reducer_events.h"

namespace ddpscope::test::reducer_passes_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "body.weight"},
                                      {.id = 2, .path = "fc4.weight", .shape = {32, 32}},
                                      {.id = 3, .path = "fc4.bias", .shape = {32}}};

void mm(Program& program) { program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}}); }
void addmm(Program& program) {
  program.op({.name = "aten::addmm", .inputs = {3, 21, 2}, .outputs = {22}});
}
}  // namespace

TEST_CASE("grad-missing reports at once what a Reducer waits for", "[check]") {
  Program program("grad-missing");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  mm(program);
  addmm(program);
  program.backward({1}, /*alive=*/{22});
  program.send_now(unfinished({1, 2, 3}, {2, 3}));
  CHECK(program.findings.empty());
  SECTION("when the optimizer steps") { program.step(1); }
  SECTION("when the next pass begins") {
    program.send_now(reducer(ReducerStage::kAbandoned));
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 1);
  CHECK(finding.module_path == "fc4");
  CHECK(finding.op == "aten::addmm");
  CHECK(finding.what ==
        "2 parameters (1056 elements) got no gradient, and c10d::Reducer waits for all 3: "
        "output_not_in_loss");
  CHECK(cause_of(finding) == "output_not_in_loss");
  CHECK(fact_of<bool>(finding, "reducer_present"));
  CHECK(finding.why.find("Expected to have finished reduction") != std::string::npos);
}

TEST_CASE("grad-missing judges what a Reducer waits for by that step alone", "[check]") {
  Program program("grad-missing");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  const auto train = [&](int steps, bool with_ops) {
    for (int i = 0; i < steps; ++i) {
      if (with_ops) mm(program);
      if (with_ops) addmm(program);
      with_ops ? program.backward({1, 2, 3}) : program.backward_without_survey({1, 2, 3});
      program.step(1);
      program.zero_grad(1);
    }
  };
  train(2, /*with_ops=*/true);
  SECTION("a layer that it did not call") {
    mm(program);
    program.backward({1});
    program.send_now(unfinished({1, 2, 3}, {2, 3}));
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(cause_of(program.findings[0]) == "not_used");
  }
  SECTION("without operator records") {
    train(4, /*with_ops=*/false);
    program.backward_without_survey({1});
    program.send_now(unfinished({1, 2, 3}, {2, 3}));
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(cause_of(program.findings[0]) == "not_ready");
    CHECK(program.findings[0].severity == Severity::kError);
  }
  CHECK(program.findings[0].step == program.step_now() - 1);
}

TEST_CASE("grad-missing tells once what a Reducer lacks in step after step", "[check]") {
  Program program("grad-missing");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2, 3});
  for (int i = 0; i < 5; ++i) {
    if (i == 0) mm(program);
    i == 0 ? program.backward({1}) : program.backward_without_survey({1});
    program.send_now(unfinished({1, 2, 3}, {2, 3}));
    program.step(1);
  }
  REQUIRE(program.judge().findings().size() == 1);
  CHECK(program.judge().findings()[0].occurrences == 5);
  CHECK(cause_of(program.judge().findings()[0]) == "not_used");
}

TEST_CASE("grad-missing warns of frozen parameters that a Reducer waits for", "[check]") {
  Program program("grad-missing");
  program.attach(
      1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight", .requires_grad = false}});
  program.optimizer(1, {1});
  program.backward({1});
  program.send_now(unfinished({1, 2}, {2}));
  program.step(1);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
}

TEST_CASE("grad-missing explains what LibTorch throws of the Reducer one step later", "[check]") {
  Finding missing{.id = "grad-missing", .severity = Severity::kError, .step = 3};
  missing.facts = {{"reducer_present", true}};
  const std::string effect = GENERATE("rank-first-failure", "module-operator-failed");
  Finding thrown{.id = effect, .severity = Severity::kError, .step = 4};
  CHECK(explains(missing, thrown));
  thrown.facts = {{"exception", std::string("c10::Error \"Expected to have finished reduction in "
                                            "the prior iteration before starting a new one.\"")}};
  CHECK(explains(missing, thrown));
  thrown.step = 2;
  CHECK_FALSE(explains(missing, thrown));
  thrown.step = 4;
  thrown.rank = 1;
  CHECK_FALSE(explains(missing, thrown));
  thrown.rank = 0;
  thrown.facts = {{"exception", std::string("c10::Error \"CUDA out of memory\"")}};
  CHECK_FALSE(explains(missing, thrown));
  thrown.facts.clear();
  missing.facts.clear();
  CHECK_FALSE(explains(missing, thrown));
}

TEST_CASE("grad-missing stays silent on what a Reducer does not wait for", "[check]") {
  Program program("grad-missing");
  SECTION("on what a later backward of the same pass brings to the Reducer") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2, 3});
    program.backward({1});
    program.send_now(unfinished({1, 2, 3}, {2, 3}));
    program.backward({2, 3});
    program.send_now(reducer(ReducerStage::kFinished));
    program.step(1);
  }
  SECTION("on a Reducer of other parameters than those of the optimizer that stepped") {
    program.attach(1, kNet);
    program.attach(2, {{.id = 4, .path = "weight"}});
    program.optimizer(1, {1, 2, 3});
    program.optimizer(2, {4});
    program.send_now(unfinished({1, 2, 3}, {2, 3}));
    program.step(2);
  }
  SECTION("when events were lost, perhaps the end of the pass") {
    program.attach(1, kNet);
    program.optimizer(1, {1, 2, 3});
    program.send_now(unfinished({1, 2, 3}, {2, 3}));
    program.drop_events();
    program.step(1);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::reducer_passes_test
