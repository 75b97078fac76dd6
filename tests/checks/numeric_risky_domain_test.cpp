#include "tests/support/catch.h"
#include "tests/support/nonfinite_steps.h"

namespace ddpscope::test::numeric_risky_domain_test {
namespace {
constexpr char kCheck[] = "numeric-risky-domain";

RiskyInputEvent risky(const std::string& rule, double min, double absmin,
                      const std::string& dtype = "float32") {
  RiskyInputEvent event = risky_log();
  event.op = "aten::" + rule;
  event.rule = rule;
  event.input_min = min;
  event.input_absmin = absmin;
  event.dtype = dtype;
  return event;
}

Findings in_two_steps(const RiskyInputEvent& event) {
  NonfiniteSteps run(kCheck);
  for (int i = 0; i < 2; ++i) {
    run.program.send_now(event);
    run.finite_step();
  }
  return run.program.findings;
}
}  // namespace

TEST_CASE("numeric-risky-domain reports what is seen in two steps", "[check]") {
  NonfiniteSteps run(kCheck);
  for (int i = 0; i < 3; ++i) {
    CHECK(run.program.findings.size() == (i == 2 ? 1U : 0U));
    run.program.send_now(risky("sqrt", 0, 0));
    run.program.send_now(risky("sqrt", 0, 0));  // a second time in the same step
    run.finite_step();
  }
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.phase == Phase::kForward);
  CHECK(finding.step == 2);
  CHECK(finding.module_path == "head");
  CHECK(finding.op == "aten::sqrt");
  CHECK(finding.what == "input minimum is 0, 3 of 512 elements are at the edge");
  CHECK(finding.why ==
        "the slope of sqrt is infinite at 0, and below 0 it is NaN: the gradient of these elements "
        "is Inf or NaN");
  REQUIRE(finding.fixes.size() == 2);
  CHECK(finding.fixes[0].text == "clamp before it: `(x * x).sum(1).clamp_min(1e-12).sqrt()`");
  CHECK(finding.fixes[1].text == "an operator with a defined slope: `torch::norm`");
  CHECK(finding.evidence_status == EvidenceStatus::kEstablished);
  CHECK(fact_of<std::string>(finding, "rule") == "sqrt");
  CHECK(fact_of<double>(finding, "input_min") == 0);
  CHECK(fact_of<std::int64_t>(finding, "offending_count") == 3);
  CHECK(fact_of<std::string>(finding, "dtype") == "float32");
  CHECK(fact_of<double>(finding, "smallest_normal") == 0x1p-126);
}

TEST_CASE("numeric-risky-domain knows the edges of each dtype", "[check]") {
  CHECK(in_two_steps(risky("log", 1e-39, 1e-39)).size() == 1);
  CHECK(in_two_steps(risky("log", 5e-5, 5e-5, "float16")).size() == 1);
  CHECK(in_two_steps(risky("log", -1, 0.5)).size() == 1);
  CHECK(in_two_steps(risky("division", -2, 1e-39)).size() == 1);
  CHECK(in_two_steps(risky("reciprocal", -2, 0)).size() == 1);
  CHECK(in_two_steps(risky("power", 0, 0)).size() == 1);
  CHECK(in_two_steps(risky("arc", -1, 0)).size() == 1);
  CHECK(in_two_steps(risky("exp", 0, 0)).size() == 1);
  CHECK(in_two_steps(risky("log", 0, 0, "Other")).size() == 1);
}

TEST_CASE("numeric-risky-domain says what put the operator at its edge", "[check]") {
  RiskyInputEvent event = risky("exp", -3, 0.5);
  event.input_max = 95;
  std::string begin;
  SECTION("the largest input of exp") { begin = "input maximum is 95, 3 of 512 elements"; }
  SECTION("the range of an arc") {
    event.rule = "arc";
    begin = "input range is [-3, 95], 3 of 512 elements";
  }
  SECTION("the denominator of a quotient") {
    event.rule = "division";
    event.input_absmin = 0;
    begin = "denominator magnitude minimum is 0, 3 of 512 elements";
  }
  SECTION("the base of a power, which may be negative elsewhere") {
    event.rule = "power";
    event.input_absmin = 0;
    begin = "input magnitude minimum is 0, 3 of 512 elements";
  }
  const Findings findings = in_two_steps(event);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what.starts_with(begin));
  CHECK(fact_of<double>(findings[0], "input_max") == 95);
}

TEST_CASE("numeric-risky-domain knows that the edge of log1p is -1", "[check]") {
  RiskyInputEvent event = risky("log", -1, 0.5);
  event.op = "aten::log1p";
  const Findings findings = in_two_steps(event);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].why.starts_with("log1p is -Inf at -1"));
  CHECK(findings[0].fixes[0].text == "clamp before it: `x.clamp_min(-0.999).log1p()`");
  CHECK(findings[0].fixes[1].text == "compute it in float32 or float64");
}

TEST_CASE("numeric-risky-domain names a constant that the dtype does not hold", "[check]") {
  RiskyInputEvent event = risky("epsilon_lost", 0.1, 0.1, "float16");
  event.epsilon = 1e-8;
  const Findings findings = in_two_steps(event);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "the constant 1e-08 is 0 in float16");
  CHECK(findings[0].fixes[0].text == "a constant of 6.2e-05 or more");
  CHECK(fact_of<double>(findings[0], "epsilon") == 1e-8);
  CHECK(std::ranges::find(findings[0].facts, "input_min", &Fact::key) == findings[0].facts.end());
  CHECK(fact_of<double>(findings[0], "smallest_normal") == 0x1p-14);
}

TEST_CASE("numeric-risky-domain speaks at once, below what it explains", "[check]") {
  NonfiniteSteps run("numeric-*");
  std::string explained;
  SECTION("in forward") {
    NonfiniteOutputEvent origin = overflow();
    origin.op = "aten::log";
    run.program.send_now(risky_log(origin.output.id));
    run.bad_step(origin);
    explained = "numeric-nonfinite-forward";
    CHECK(run.program.with_id(explained).at(0).fixes.back().text ==
          "keep its input away from the edge of its domain, as numeric-risky-domain of the same "
          "operator says");
  }
  SECTION("in backward") {
    run.program.send_now(risky_log());
    run.bad_backward(log_node());
    run.step();
    explained = "numeric-nonfinite-backward";
  }
  Findings all = run.program.judge().findings();
  std::erase_if(all, [](const Finding& one) { return one.id == "numeric-nonfinite-gradient"; });
  REQUIRE(all.size() == 2);
  if (all[0].id == kCheck) std::swap(all[0], all[1]);
  CHECK(all[0].id == explained);
  CHECK(all[1].id == kCheck);
  CHECK(all[1].evidence_status == EvidenceStatus::kSupported);
  CHECK(all[1].caused_by == all[0].fingerprint);
}

TEST_CASE("numeric-risky-domain stays silent", "[check]") {
  SECTION("on the log of probabilities that are normal numbers") {
    CHECK(in_two_steps(risky("log", 1e-37, 1e-37)).empty());
    CHECK(in_two_steps(risky("log", 7e-5, 7e-5, "float16")).empty());
  }
  SECTION("on positive inputs of a root and on denominators away from 0") {
    CHECK(in_two_steps(risky("sqrt", 1e-30, 1e-30)).empty());
    CHECK(in_two_steps(risky("division", -3, 1e-30)).empty());
    CHECK(in_two_steps(risky("reciprocal", -3, 1e-45)).empty());
    CHECK(in_two_steps(risky("power", -3, 0.1)).empty());
  }
  SECTION("on one step") {
    NonfiniteSteps run(kCheck);
    run.program.send_now(risky_log());
    run.finite_step();
    run.finite_step();
    CHECK(run.program.findings.empty());
  }
  SECTION("where another operator is at fault, and in later steps of what it spoilt") {
    NonfiniteSteps run(kCheck);
    run.program.send_now(risky_log());
    run.bad_forward(overflow());
    run.step();
    run.bad_backward(log_node());
    CHECK(run.program.findings.empty());
  }
  SECTION("on what the loss does not read") {
    Program program(kCheck);
    program.attach(1, {{.id = 1, .path = "head.weight"}});
    program.optimizer(1, {1});
    const TensorId root = GENERATE(35, 40);  // of the logarithm; of the loss beside it
    for (int i = 0; i < 3; ++i) {
      program.op({.name = "aten::addmm", .inputs = {30, 1}, .outputs = {31}});
      program.op({.name = "aten::log", .inputs = {31}, .outputs = {22}});
      program.send_now(risky_log(22));
      program.op({.name = "aten::sum", .inputs = {22}, .outputs = {35}});
      program.op({.name = "aten::mean", .inputs = {31}, .outputs = {40}});
      program.roots = {root};
      program.backward({1});
      program.step(1);
      program.backward_without_survey({1});  // knows nothing of the operators before
      program.step(1);
    }
    CHECK(program.findings.size() == (root == 35 ? 1U : 0U));
  }
  SECTION("after events were lost, for the two steps it needs") {
    NonfiniteSteps run(kCheck);
    run.program.send_now(risky_log());
    run.finite_step();
    run.program.drop_events();
    run.program.send_now(risky_log());
    run.finite_step();
    CHECK(run.program.findings.empty());
  }
}

}  // namespace ddpscope::test::numeric_risky_domain_test
