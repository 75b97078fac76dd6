#include "tests/support/catch.h"
#include "tests/support/stale_events.h"

namespace ddpscope::test::autograd_multiview_inplace_test {
namespace {
FailedWriteEvent failed(ViewOrigin origin) {
  return {.op = "aten::mul_",
          .tensor = saved_tensor(40),
          .by = {.step = 1, .module = 1001, .stack = 52},
          .requires_grad = true,
          .is_view = true,
          .base = saved_tensor(41),
          .origin = origin,
          .creator = "SplitBackward0",
          .output_index = 0,
          .outputs = 3,
          .created = Doing{.step = 1, .module = 1001, .stack = 40}};
}
}  // namespace

TEST_CASE("autograd-multiview-inplace names the view, its maker and both lines", "[check]") {
  LinesByStack lines;
  Program program("*", &lines);
  program.attach(1, {{.id = 1, .path = "decode.weight"}});
  program.send_now(failed(ViewOrigin::kMultiOutput));
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.id == "autograd-multiview-inplace");
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "decode");
  CHECK(finding.what == "view 0 of 3 made by aten::split is written in place, [32, 256]");
  CHECK(finding.why ==
        "made at train.cpp:40, written at train.cpp:52; autograd cannot rewrite the history of "
        "such views");
  CHECK(finding.fixes[0].text == "out of place: v = v.mul(...)");
  CHECK(fact_of<std::string>(finding, "creation_kind") == "multi_output");
  CHECK(fact_of<std::int64_t>(finding, "outputs_count") == 3);
  CHECK(fact_of<std::int64_t>(finding, "output_index") == 0);
}

TEST_CASE("autograd-multiview-inplace tells a part of a view from the view", "[check]") {
  Program program("*");
  FailedWriteEvent event = failed(ViewOrigin::kMultiOutput);
  event.op = "aten::zero_";
  event.of_part = true;
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.what == "a part of view 0 of 3 made by aten::split is written in place, [32, 256]");
  CHECK(finding.fixes[0].text == "out of place: v = torch::zeros_like(v)");
  CHECK(finding.fixes[2].text.starts_with("take it from the whole tensor with narrow"));
}

TEST_CASE("autograd-multiview-inplace says how other views were made", "[check]") {
  Program program("*");
  SECTION("by a custom function") {
    FailedWriteEvent event = failed(ViewOrigin::kCustomFunction);
    event.creator = "torch::autograd::CppNode<Scale>";
    program.send_now(std::move(event));
    REQUIRE(program.findings.size() == 1);
    CHECK(program.findings[0].what ==
          "a view [32, 256] that the custom function torch::autograd::CppNode<Scale> returned is "
          "written in place");
    CHECK(fact_of<std::string>(program.findings[0], "creation_kind") == "custom_function");
  }
  SECTION("without lines") {
    program.send_now(failed(ViewOrigin::kMultiOutput));
    REQUIRE(program.findings.size() == 1);
    CHECK(program.findings[0].why == "autograd cannot rewrite the history of such views");
  }
  SECTION("with grad mode off") {
    program.send_now(failed(ViewOrigin::kGradModeOff));
    REQUIRE(program.findings.size() == 1);
    CHECK(fact_of<std::string>(program.findings[0], "creation_kind") == "grad_mode_off");
  }
}

TEST_CASE("autograd-multiview-inplace knows views that no node made from the survey", "[check]") {
  LinesByStack lines;
  Program program("autograd-multiview-inplace", &lines);
  program.attach(1, {{.id = 1, .path = "decode.weight"}});
  program.op({.name = "aten::select",
              .inputs = {1},
              .outputs = {40},
              .grad_mode = false,
              .requires_grad = false,
              .stack = 40});
  FailedWriteEvent event = failed(ViewOrigin::kGradModeOff);
  event.creator = "";
  event.created.reset();
  event.output_index = event.outputs = 0;
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.fixes[0].text.find("the same side of torch::NoGradGuard") != std::string::npos);
  CHECK(finding.fixes.size() == 3);
  CHECK(finding.why.starts_with("made at train.cpp:40, written at train.cpp:52"));
  CHECK(fact_of<std::string>(finding, "creator_op") == "aten::select");
  CHECK(std::ranges::count(finding.facts, "outputs_count", &Fact::key) == 0);
}

TEST_CASE("autograd-multiview-inplace knows what was thrown before hooks stood", "[check]") {
  Program program("autograd-multiview-inplace");
  program.send_now(ErrorEvent{.message =
                                  "Output 0 of SplitBackward0 is a view and is being modified "
                                  "inplace. This view is the output of a function that "
                                  "returns multiple views."});
  CHECK(program.findings.empty());
  program.send_now(ExitEvent{});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what ==
        "one of several views that an operator made is written in place");
}

TEST_CASE("autograd-multiview-inplace stays silent", "[check]") {
  Program program("autograd-multiview-inplace");
  SECTION("on single views") { program.send_now(failed(ViewOrigin::kSingle)); }
  SECTION("on tensors that are no views") { program.send_now(failed(ViewOrigin::kNone)); }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::autograd_multiview_inplace_test
