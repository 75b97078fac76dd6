#include "checks/nonfinite_fixes.h"

#include "checks/nonfinite_text.h"
#include "tests/support/catch.h"
#include "tests/support/nonfinite_steps.h"

namespace ddpscope::test::nonfinite_fixes_test {

TEST_CASE("Each operator that makes NaN has a fix of its own", "[check]") {
  CHECK(fix_of_nonfinite("aten::std").starts_with("unbiased=false"));
  CHECK(fix_of_nonfinite("aten::div_").starts_with("add an epsilon"));
  CHECK(fix_of_nonfinite("aten::log") == "clamp its input above 0 before it");
  CHECK(fix_of_nonfinite("aten::logsumexp").starts_with("look at the batch"));
  CHECK(fix_of_nonfinite("").starts_with("look at the batch"));
}

TEST_CASE("A quotient and a mean over nothing are told as such", "[check]") {
  NonfiniteOutputEvent origin{.op = "aten::div",
                              .output = {.dtype = "float32"},
                              .values = {.elements = 1, .nan_count = 1},
                              .inputs_known = true,
                              .inputs = {.elements = 1}};
  Finding finding;
  SECTION("a quotient by 0") {
    CHECK(inputs_text(origin) == "its divisor is 0");
    add_operator_fixes(origin, nullptr, finding);
    CHECK(finding.fixes.at(0).text == "divide a masked sum by clamp_min(1) of its count");
    CHECK(finding.fixes.size() == 2);
  }
  SECTION("a quotient by anything else") {
    origin.inputs.absmax = 2;
    CHECK(inputs_text(origin) == "all inputs finite (absmax 2)");
    add_operator_fixes(origin, nullptr, finding);
    CHECK(finding.fixes.size() == 1);
  }
  SECTION("labels that are all ignored") {
    origin.op = "aten::nll_loss";
    origin.inputs = {.elements = 64, .absmax = 1.8};
    CHECK(inputs_text(origin) == "the mean over no target: all are ignored or weigh 0");
    add_operator_fixes(origin, nullptr, finding);
    CHECK(finding.fixes.at(0).text.starts_with("leave the term out where nothing is selected"));
  }
  SECTION("a loss that is Inf") {
    origin.op = "aten::nll_loss";
    origin.values = {.elements = 1, .inf_count = 1};
    origin.inputs = {.elements = 64, .absmax = 1.8};
    CHECK(inputs_text(origin) == "all inputs finite (absmax 1.8)");
  }
}

TEST_CASE("A power of what is large is told to be scaled down", "[check]") {
  const auto [dtype, absmax, is_large] = GENERATE(table<std::string, double, bool>(
      {{"float16", 280, true}, {"float16", 100, false}, {"float32", 1e25, true}}));
  NonfiniteOutputEvent power{.op = "aten::pow",
                             .output = {.dtype = dtype},
                             .inputs_known = true,
                             .inputs = {.elements = 4, .absmax = absmax}};
  Finding finding;
  add_operator_fixes(power, nullptr, finding);
  const std::string& first = finding.fixes.at(0).text;
  CHECK(first.starts_with(is_large ? "scale its base down" : "clamp its base above 0"));
  CHECK((finding.fixes.size() == 2) == (dtype == "float16"));
}

TEST_CASE("numeric-nonfinite-forward tells what computes such a batch in surveyed steps") {
  NonfiniteSteps run("numeric-nonfinite-forward");
  NonfiniteOutputEvent origin = overflow();
  origin.source = 41;
  origin.source_values = nans(1, 512);
  origin.candidates = {"aten::log"};
  run.bad_step(origin);
  const Finding& finding = run.program.findings.at(0);
  CHECK(finding.what ==
        "a tensor without a gradient path, as the batch, was not finite when forward read it: 1 "
        "of 512 elements is NaN");
  CHECK(finding.why.ends_with("; in surveyed steps aten::log computed such a tensor"));
  CHECK(finding.fixes.at(0).text == "aten::log: clamp its input above 0 before it");
  CHECK(cause_of(finding) == "batch");
}

TEST_CASE("A parameter that a step in float16 spoilt is told with the eps of the optimizer",
          "[check]") {
  const auto [dtype, eps, is_lost] = GENERATE(table<std::string, double, bool>(
      {{"float16", 1e-8, true}, {"float16", 1e-4, false}, {"float32", 1e-8, false}}));
  Program program("numeric-nonfinite-forward");
  program.optimizer_type = "torch::optim::Adam";
  program.group_options = {{.eps = eps}};
  program.attach(1, {{.id = 1, .path = "head.weight"}});
  program.optimizer(1, {1});
  program.backward({1});
  program.step(1);
  program.send_now(LossEvent{.loss = 30, .value = NAN});
  program.backward_without_survey({1});
  program.send_now(NonfiniteOutputEvent{.op = "aten::addmm",
                                        .source = 1,
                                        .source_values = nans(2, 4),
                                        .source_dtype = dtype,
                                        .victims = 3});
  program.step(1);
  program.exit();
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK((finding.why.find("; Adam steps it in float16, where its eps is 0") != std::string::npos) ==
        is_lost);
  CHECK(finding.fixes.at(0).text.starts_with("let the optimizer step float32 copies") == is_lost);
}

TEST_CASE("Softmax whose input nobody kept may have read a row of -Inf", "[check]") {
  const NonfiniteOutputEvent origin{.op = GENERATE("aten::_softmax", "aten::softmax")};
  CHECK(inputs_text(origin).ends_with("a row of -Inf alone, as where a mask leaves out all of it"));
}

}  // namespace ddpscope::test::nonfinite_fixes_test
