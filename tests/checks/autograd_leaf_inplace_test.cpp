#include "tests/support/catch.h"
#include "tests/support/stale_events.h"

namespace ddpscope::test::autograd_leaf_inplace_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "fc1.weight", .shape = {32, 256}}};

FailedWriteEvent failed(TensorId id) {
  return {.op = "aten::mul_",
          .tensor = saved_tensor(id),
          .by = {.step = 1, .stack = 23},
          .requires_grad = true,
          .of_leaf = true};
}
}  // namespace

TEST_CASE("autograd-leaf-inplace names the leaf and the line", "[check]") {
  LinesByStack lines;
  Program program("*", &lines);
  program.attach(1, kNet);
  program.send_now(failed(1));
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.id == "autograd-leaf-inplace");
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "fc1");
  CHECK(finding.subject == "weight");
  CHECK(finding.op == "aten::mul_");
  CHECK(finding.what == "trainable leaf [32, 256] is changed in place with grad mode on");
  CHECK(finding.why ==
        "aten::mul_ (train.cpp:23) runs outside a guard; autograd cannot record a leaf's change");
  CHECK(fact_of<std::string>(finding, "writer_site") == "train.cpp:23");
  CHECK(!fact_of<bool>(finding, "through_view"));
  CHECK(cause_of(finding).empty());
  CHECK(finding.confidence == Confidence::kHigh);
}

TEST_CASE("autograd-leaf-inplace names the model of the leaf, or none", "[check]") {
  Program program("*");
  program.attach(1, kNet);
  program.attach(2, {{.id = 2, .path = "head.weight", .shape = {32, 256}}});
  const bool is_known = GENERATE(true, false);
  program.send_now(failed(is_known ? 2 : 9));
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].model == (is_known ? "net2" : ""));
  CHECK(program.findings[0].module_path == (is_known ? "head" : ""));
}

TEST_CASE("autograd-leaf-inplace tells of a guard without a name", "[check]") {
  Program program("*");
  program.attach(1, kNet);
  FailedWriteEvent event = failed(1);
  event.after_empty_guard = true;
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(cause_of(finding) == "unnamed_guard");
  CHECK(finding.confidence == Confidence::kMedium);
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.why ==
        "aten::mul_ runs outside a guard; one without a name has just ended at its own semicolon; "
        "autograd cannot record a leaf's change");
}

TEST_CASE("autograd-leaf-inplace sees the leaf behind a view", "[check]") {
  Program program("*");
  program.attach(1, kNet);
  FailedWriteEvent event = failed(40);
  event.is_view = true;
  event.origin = ViewOrigin::kSingle;
  event.base = saved_tensor(1);
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].subject == "weight");
  CHECK(fact_of<bool>(program.findings[0], "through_view"));
}

TEST_CASE("autograd-leaf-inplace knows what was thrown before hooks stood", "[check]") {
  const bool trains_on = GENERATE(false, true), is_told = GENERATE(false, true);
  Program program("autograd-leaf-inplace");
  program.attach(1, kNet);
  program.send_now(ErrorEvent{
      .message = "a leaf Variable that requires grad is being used in an in-place operation."});
  if (is_told) program.send_now(failed(1));
  if (trains_on) program.send_now(CycleEndEvent{});
  program.send_now(ExitEvent{});
  REQUIRE(program.findings.size() == (is_told || !trains_on ? 1 : 0));
  if (trains_on || is_told) return;
  CHECK(program.findings[0].what == "a trainable leaf is changed in place with grad mode on");
  CHECK(program.findings[0].severity == Severity::kError);
}

TEST_CASE("autograd-leaf-inplace stays silent", "[check]") {
  Program program("autograd-leaf-inplace");
  FailedWriteEvent event = failed(40);
  SECTION("on tensors with history") { event.of_leaf = false; }
  SECTION("under a guard") { event.grad_mode = false; }
  SECTION("on views of several, which autograd-multiview-inplace reports") {
    event.is_view = true;
    event.origin = ViewOrigin::kMultiOutput;
  }
  program.send_now(std::move(event));
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::autograd_leaf_inplace_test
