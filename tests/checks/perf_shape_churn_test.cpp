#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::perf_shape_churn_test {
namespace {
/// Steps of which some meet an input shape that is new to a convolution.
struct Steps {
  Program program{"perf-shape-churn"};
  std::string device = "cuda:0";
  std::int64_t step = 0;
  double new_ms = 412;
  double other_ms = 96;
  std::int64_t watched_every = 1;

  Steps() { program.attach(1, {{.id = 1, .path = "conv1.weight"}}); }
  /// 100 steps, of which the first `count` have a new shape.
  void window(int count, ModuleId module = 1001) {
    for (int i = 0; i < 100; ++i) {
      const Stamp at{.step = ++step, .cycle = step, .thread = 1};
      if (i < count) {
        program.send(
            std::make_unique<ConvolutionShapeEvent>(ConvolutionShapeEvent{.at = at,
                                                                          .module = module,
                                                                          .op = "aten::convolution",
                                                                          .shape = {1, 3, step},
                                                                          .dtype = "float32",
                                                                          .device = device}));
      }
      if (step % watched_every != 0) continue;
      program.send(CycleEndEvent{.at = at, .wall_ms = i < count ? new_ms : other_ms});
    }
  }
};
}  // namespace

TEST_CASE("perf-shape-churn reports a convolution that meets ever new shapes", "[check]") {
  Steps steps;
  steps.window(90);
  steps.window(88);
  CHECK(steps.program.findings.empty());
  steps.window(87);
  REQUIRE(steps.program.findings.size() == 1);
  const Finding& finding = steps.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.evidence_status == EvidenceStatus::kEstablished);
  CHECK(finding.module_path == "conv1");
  CHECK(finding.op == "aten::convolution");
  CHECK(finding.step == 300);
  CHECK(finding.what ==
        "87 new input shapes in 100 steps with benchmark on; such steps take 412 ms, others 96 ms");
  CHECK(fact_of<std::int64_t>(finding, "distinct_shapes_count") == 87);
  CHECK(fact_of<std::int64_t>(finding, "window_steps") == 100);
  CHECK(fact_of<double>(finding, "new_shape_ms") == 412);
  CHECK(fact_of<double>(finding, "other_ms") == 96);
  CHECK(fact_of<bool>(finding, "benchmark"));
}

TEST_CASE("perf-shape-churn has nothing to compare with where each step has a new shape",
          "[check]") {
  Steps steps;
  for (int i = 0; i < 3; ++i) steps.window(100);
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].what == "100 new input shapes in 100 steps with benchmark on");
}

TEST_CASE("perf-shape-churn counts on a host, which searches nothing", "[check]") {
  Steps steps;
  steps.device = "cpu";
  steps.new_ms = 0.41;
  steps.other_ms = 2.4;
  for (int i = 0; i < 3; ++i) steps.window(60);
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].what ==
        "60 new input shapes in 100 steps with benchmark on; such steps take 410 us, others 2.4 "
        "ms");
  CHECK(steps.program.findings[0].evidence_status == EvidenceStatus::kHypothesis);
}

TEST_CASE("perf-shape-churn counts the steps in which hooks rest too", "[check]") {
  Steps steps;
  steps.watched_every = 16;
  for (int i = 0; i < 4; ++i) steps.window(60);
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].step == 301);  // the first that is told of after the third window
  CHECK(fact_of<std::int64_t>(steps.program.findings[0], "distinct_shapes_count") == 60);
  CHECK(fact_of<double>(steps.program.findings[0], "new_shape_ms") == 412);
}

TEST_CASE("perf-shape-churn names the convolution with the most shapes", "[check]") {
  Steps steps;
  steps.program.attach(2, {{.id = 2, .path = "conv2.weight"}});
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 70; ++k) {
      steps.program.send(std::make_unique<ConvolutionShapeEvent>(ConvolutionShapeEvent{
          .at = {.step = steps.step + 1, .cycle = steps.step + 1, .thread = 1},
          .module = 2001,
          .op = "aten::convolution",
          .device = "cuda:0"}));
    }
    steps.window(60);
  }
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].module_path == "conv2");
}

TEST_CASE("perf-shape-churn stays silent", "[check]") {
  Steps steps;
  SECTION("on a warm-up that stabilises") {
    steps.window(60);
    for (int i = 0; i < 5; ++i) steps.window(4);
  }
  SECTION("while the shapes begin to repeat") {
    for (const int count : {90, 60, 40, 25, 18, 12}) steps.window(count);
  }
  SECTION("with benchmark off, and in models without convolutions: nothing is told") {
    for (int i = 0; i < 5; ++i) steps.window(0);
  }
  SECTION("where steps with a new shape take as long as others") {
    steps.new_ms = 130;
    for (int i = 0; i < 5; ++i) steps.window(60);
  }
  SECTION("on a device of which no step with a new shape was watched") {
    steps.watched_every = 1000;
    for (int i = 0; i < 5; ++i) steps.window(60);
  }
  SECTION("after events were lost, until there are three windows again") {
    for (int i = 0; i < 4; ++i) {
      steps.window(60);
      if (i == 1) steps.program.drop_events();
    }
  }
  SECTION("on 20 new shapes per window") {
    for (int i = 0; i < 5; ++i) steps.window(20);
  }
  CHECK(steps.program.findings.empty());
}

}  // namespace ddpscope::test::perf_shape_churn_test
