#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::grad_used_while_reducing_test {
namespace {
struct Loop {
  Program program{"grad-used-while-reducing", nullptr, 2};

  Loop() {
    program.attach(1, {{.id = 1, .path = "fc.weight"}, {.id = 2, .path = "fc.bias"}});
    program.optimizer(1, {1, 2});
    program.backward({1, 2});
  }
  void use(GradientUse use, TensorId parameter, std::string op) {
    program.send_now(PendingUseEvent{
        .seq = 3, .group = 7, .use = use, .parameter = parameter, .op = std::move(op)});
  }
};
}  // namespace

TEST_CASE("grad-used-while-reducing reports a division before wait()", "[check]") {
  Loop loop;
  loop.use(GradientUse::kWrite, 1, "aten::div_");
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 1);
  CHECK(finding.phase == Phase::kReduce);
  CHECK(finding.module_path == "fc");
  CHECK(finding.subject == "weight");
  CHECK(finding.op == "aten::div_");
  CHECK(finding.what == "gradient of weight written while all_reduce #3 on it is pending");
  CHECK(finding.why ==
        "all_reduce #3 was issued, aten::div_ writes it before wait(): the result depends on "
        "timing");
  CHECK(fact_of<std::int64_t>(finding, "collective_seq") == 3);
  CHECK(fact_of<std::string>(finding, "access") == "write");
  CHECK(fact_of<std::string>(finding, "parameter") == "fc.weight");
  CHECK(finding.fixes.at(0).text == "`work->wait()` before `aten::div_`");
  CHECK(finding.fixes.size() == 2);
}

TEST_CASE("grad-used-while-reducing reports a step before wait()", "[check]") {
  Loop loop;
  loop.use(GradientUse::kStep, 2, "");
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.what == "step() reads the gradient of bias while all_reduce #3 on it is pending");
  CHECK(finding.phase == Phase::kOptimizer);
  CHECK(finding.fixes.at(0).text == "`work->wait()` before step()");
  CHECK(finding.fixes.size() == 1);
  CHECK(fact_of<std::string>(finding, "access") == "step");
}

TEST_CASE("grad-used-while-reducing reports a backward before wait()", "[check]") {
  Loop loop;
  loop.use(GradientUse::kAdd, 1, "");
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.what == "gradient of weight added to while all_reduce #3 on it is pending");
  CHECK(finding.why ==
        "all_reduce #3 was issued, the next backward() adds to it before wait(): the result "
        "depends on timing");
  CHECK(fact_of<std::string>(finding, "access") == "write");
  CHECK(finding.fixes.at(0).text == "`work->wait()` before the next backward()");
}

TEST_CASE("grad-used-while-reducing reports a buffer of gradients that is read", "[check]") {
  Loop loop;
  loop.use(GradientUse::kRead, 0, "aten::split");
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.what == "buffer of gradients read while all_reduce #3 on it is pending");
  CHECK(finding.module_path.empty());
  CHECK(fact_of<std::string>(finding, "access") == "read");
}

TEST_CASE("grad-used-while-reducing waits for the site of the wait, or the end of the step",
          "[check]") {
  Loop loop;
  const PendingUseEvent use{
      .seq = 3, .group = 7, .parameter = 1, .op = "aten::div_", .by = {.stack = 5}};
  loop.program.send_now(use);
  CHECK(loop.program.findings.empty());
  SECTION("of this call") {
    loop.program.send_now(CollectiveEndEvent{.seq = 2, .group = 7});
    CHECK(loop.program.findings.empty());
    loop.program.send_now(CollectiveEndEvent{.seq = 3, .group = 7, .waited = 6});
  }
  SECTION("or the end of the step") {
    loop.program.step(1);
    loop.program.backward({1, 2});
  }
  SECTION("or of the program") { loop.program.send_now(ExitEvent{}); }
  CHECK(loop.program.findings.size() == 1);
}

TEST_CASE("grad-used-while-reducing: one parameter stands for all of a loop", "[check]") {
  Loop loop;
  loop.use(GradientUse::kWrite, 1, "aten::div_");
  loop.use(GradientUse::kWrite, 2, "aten::div_");
  CHECK(loop.program.findings.size() == 1);
}

}  // namespace ddpscope::test::grad_used_while_reducing_test
