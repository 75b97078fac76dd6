#include "tests/support/catch.h"
#include "tests/support/stale_events.h"

namespace ddpscope::test::autograd_double_backward_test {
namespace {
GraphFreedEvent freed() {
  return {.node = "AddmmBackward0",
          .second = {.step = 3, .stack = 97},
          .first = Doing{.step = 3, .stack = 91},
          .established = true,
          .shared_nodes = 57,
          .shared = "TanhBackward0",
          .shared_made = Doing{.step = 3, .module = 1001}};
}
}  // namespace

TEST_CASE("autograd-double-backward names both passes and what they share", "[check]") {
  LinesByStack lines;
  Program program("autograd-double-backward", &lines);
  program.attach(1, {{.id = 1, .path = "out.weight"}});
  program.send_now(freed());
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "out");
  CHECK(finding.op == "aten::tanh");
  CHECK(finding.what == "backward needs 57 nodes that an earlier backward freed in the same step");
  CHECK(finding.why ==
        "the graph is freed as the first pass goes through it; first pass train.cpp:91; second "
        "train.cpp:97; shared from aten::tanh on");
  CHECK(fact_of<bool>(finding, "same_step"));
  CHECK(fact_of<std::int64_t>(finding, "shared_nodes_count") == 57);
  CHECK(fact_of<std::string>(finding, "shared_op") == "aten::tanh");
}

TEST_CASE("autograd-double-backward advises to cut what a step hands to the next", "[check]") {
  Program program("autograd-double-backward");
  GraphFreedEvent event = freed();
  event.first->step = 2;
  event.second.cycle = 1;
  event.established = false;
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].fixes[0].text.starts_with("detach() at the step boundary"));
  CHECK(program.findings[0].evidence_status == EvidenceStatus::kSupported);
}

TEST_CASE("autograd-double-backward takes the steps of one cycle for one", "[check]") {
  Program program("autograd-double-backward");
  GraphFreedEvent event = freed();
  event.first->step = 2;  // the critic's; the generator's follows in the same cycle
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what ==
        "backward needs 57 nodes that an earlier backward freed in the same cycle");
  CHECK(program.findings[0].fixes[0].text.starts_with("detach() the shared tensor"));
}

TEST_CASE("autograd-double-backward knows the first cycle by an optimizer that waits", "[check]") {
  LinesByStack lines;
  Program program("autograd-double-backward", &lines);
  const bool has_another = GENERATE(true, false);
  const bool on_one_line = GENERATE(true, false);
  program.optimizer(1, {1});
  if (has_another) program.optimizer(2, {2});
  program.step(1);
  GraphFreedEvent event = freed();
  event.first = Doing{.step = 1, .cycle = 1, .stack = on_one_line ? 97U : 91U};
  event.second = {.step = 2, .cycle = 2, .stack = 97};
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  const bool same_cycle = has_another && !on_one_line;
  CHECK(fact_of<bool>(program.findings[0], "same_step") == same_cycle);
  CHECK(program.findings[0].what.ends_with(same_cycle ? "in the same cycle" : "in step 1"));
  CHECK(program.findings[0].fixes[0].text.starts_with(
      same_cycle ? "detach() the shared tensor" : "detach() at the step boundary"));
}

TEST_CASE("autograd-double-backward says when the first pass is not known", "[check]") {
  Program program("autograd-double-backward");
  GraphFreedEvent event = freed();
  event.first.reset();
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what ==
        "backward asks for tensors of aten::addmm that an earlier backward freed");
  CHECK(program.findings[0].confidence == Confidence::kMedium);
}

TEST_CASE("autograd-double-backward stays silent on backward calls that succeed", "[check]") {
  Program program("autograd-double-backward");
  program.attach(1, {{.id = 1, .path = "out.weight"}});
  program.backward({1});
  program.backward({1});
  program.exit();
  CHECK(program.findings.empty());
}

TEST_CASE("autograd-double-backward tells of a first pass that was not recorded", "[check]") {
  Program program("autograd-double-backward");
  GraphFreedEvent event = freed();
  event.first.reset();
  event.rested = GENERATE(true, false);
  const bool rested = event.rested;
  program.send_now(std::move(event));
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why.starts_with(rested ? "the first pass was not recorded"
                                                   : "the first pass is not among the last 8"));
}

}  // namespace ddpscope::test::autograd_double_backward_test
