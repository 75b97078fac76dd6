#include <cmath>
#include <functional>

#include "tests/support/catch.h"
#include "tests/support/nonfinite_steps.h"

namespace ddpscope::test::numeric_half_range_test {
namespace {
constexpr char kCheck[] = "numeric-half-range";

struct HalfSteps : NonfiniteSteps {
  HalfSteps() : NonfiniteSteps(kCheck) {}
  void output(double absmax) {
    program.send(HalfOutputEvent{.at = program.now(), .module = kHeadModule, .absmax = absmax});
  }
  /// So many steps whose largest elements `at` tells, and one that closes the last.
  void outputs(int steps, const std::function<double(int)>& at) {
    for (int i = 0; i < steps; ++i) {
      output(at(i));
      finite_step();
    }
    output(at(steps));
  }
  void scaled_step() {
    program.op({.name = "aten::mul", .inputs = {29}, .outputs = {30}, .factor = 1024});
    program.roots = {30};
    program.backward({kHead, kConv});
    step();
  }
  void gradients(int steps, const GradientValuesEvent& event, TensorId other = 0) {
    for (int i = 0; i < steps; ++i) {
      loss(0.5);
      for (const TensorId tensor : {event.tensor, other}) {
        if (tensor == 0) continue;
        GradientValuesEvent sent = event;
        sent.tensor = tensor;
        program.send_now(sent);
      }
      backward();
      step();
    }
  }
};

GradientValuesEvent flushed() {
  return {.at = {},
          .tensor = kHead,
          .values = {.elements = 64, .absmax = 2e-6},
          .zero_count = 48,
          .dtype = "float16"};
}
}  // namespace

TEST_CASE("numeric-half-range tells the loss scale beside outputs", "[check]") {
  HalfSteps run;
  run.scaled_step();
  run.outputs(6, [](int i) { return i % 2 == 0 ? 40000 + 100 * i : 10; });
  REQUIRE(run.program.findings.size() == 1);
  CHECK(fact_of<double>(run.program.findings[0], "loss_scale") == 1024);
}

TEST_CASE("numeric-half-range reports a module whose outputs come near the end", "[check]") {
  HalfSteps run;
  run.outputs(6, [](int i) { return i % 2 == 0 ? 40000 + 100 * i : 10; });
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.phase == Phase::kForward);
  CHECK(finding.module_path == "head");
  CHECK(finding.what == "float16 output absmax 40400");
  CHECK(finding.why == "over half of 65504, where float16 ends, in 3 of the last 5 steps");
  CHECK(finding.fixes.size() == 3);
  CHECK(fact_of<std::string>(finding, "kind") == "overflow");
  CHECK(fact_of<double>(finding, "absmax") == 40400);
  CHECK(fact_of<double>(finding, "headroom_ratio") == 65504 / 40400.0);
}

TEST_CASE("numeric-half-range forecasts where a steady growth leads", "[check]") {
  HalfSteps run;
  run.outputs(64, [](int i) { return 256 * std::exp2(i / 20.0); });
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  // log2(65504 / 256) * 20 = 160 steps after the first.
  CHECK(finding.what ==
        "float16 output absmax 2272.4, doubling every 20 steps; 65504 is reached near step 161");
  CHECK(finding.why == "growth factor 1.0353 per step over 64 samples");
  CHECK(fact_of<std::string>(finding, "kind") == "forecast");
  CHECK(fact_of<double>(finding, "doubling_steps") == Approx(20));
  CHECK(fact_of<std::int64_t>(finding, "forecast_step") == 161);
}

TEST_CASE("numeric-half-range reports gradients that are flushed to zero", "[check]") {
  HalfSteps run;
  run.gradients(31, flushed());
  CHECK(run.program.findings.empty());
  run.gradients(5, flushed());
  REQUIRE(run.program.findings.size() == 1);
  const Finding& finding = run.program.findings[0];
  CHECK(finding.module_path == "head");
  CHECK(finding.subject == "weight");
  CHECK(finding.what ==
        "75 % of the float16 gradient is zero and its absmax 2e-06, in the median of 32 steps");
  CHECK(finding.why == "float16 flushes what is below 6e-8 to zero, and no loss scale was seen");
  CHECK(fact_of<std::string>(finding, "kind") == "underflow");
  CHECK(fact_of<double>(finding, "zero_ratio") == 0.75);
  CHECK(fact_of<double>(finding, "absmax") == 2e-6);
}

TEST_CASE("numeric-half-range reports flushed parameters together", "[check]") {
  HalfSteps run;
  run.gradients(32, flushed(), kConv);
  REQUIRE(run.program.findings.size() == 1);
  CHECK(fact_of<std::int64_t>(run.program.findings[0], "parameters_count") == 2);
}

TEST_CASE("numeric-half-range takes whole gradients of 0 for flushed beside tiny ones", "[check]") {
  HalfSteps run;
  GradientValuesEvent zero = flushed();
  zero.values.absmax = 0;
  zero.zero_count = 64;
  GradientValuesEvent beside = flushed();
  beside.tensor = kConv;
  bool is_told = false;
  SECTION("which are flushed in part") { is_told = true; }
  SECTION("but not beside ones without a zero") { beside.zero_count = 0; }
  SECTION("but not beside larger ones") { beside.values.absmax = 1e-3; }
  SECTION("but not where the loss is scaled") { run.scaled_step(); }
  for (int i = 0; i < 9; ++i) {
    run.loss(0.5);
    run.program.send_now(GradientValuesEvent(zero));
    run.program.send_now(GradientValuesEvent(beside));
    run.backward();
    run.step();
    if (i == 6) CHECK(run.program.findings.empty());
  }
  CHECK(run.program.findings.size() == (is_told ? 1 : 0));
  if (!is_told) return;
  CHECK(run.program.findings[0].what == "100 % of the float16 gradient is zero in each of 8 steps");
  CHECK(run.program.findings[0].module_path == "head");
}

TEST_CASE("numeric-half-range tells losses of which float16 leaves no gradient", "[check]") {
  HalfSteps run;
  double loss = 1.4e-6;
  double root_gradient = 1;
  GradientValuesEvent zero = flushed();
  zero.values.absmax = 0;
  zero.zero_count = 64;
  bool is_told = false;
  SECTION("in each of several steps") { is_told = true; }
  SECTION("as of a tiny gradient of the root") {
    loss = 1.4;
    root_gradient = 1e-6;
    is_told = true;
  }
  SECTION("but not of one that float16 holds: activations are dead") { loss = 1e-3; }
  SECTION("nor of one that is scaled where backward begins") { root_gradient = 1024; }
  SECTION("nor of 0, as where training is done") { loss = 0; }
  SECTION("nor of one that is not finite") { loss = NAN; }
  SECTION("nor of one that shrank") {
    run.loss(0.5);
    run.backward();
    run.step();
  }
  SECTION("nor where a gradient came before") { run.gradients(1, flushed()); }
  SECTION("nor in float32") { zero.dtype = "float32"; }
  for (int i = 0; i < 9; ++i) {
    run.loss(loss);
    for (const TensorId tensor : {kHead, kConv}) {
      zero.tensor = tensor;
      run.program.send_now(GradientValuesEvent(zero));
    }
    run.program.root_gradient = root_gradient;
    run.program.backward({kHead, kConv});
    run.step();
    if (i == 6) CHECK(run.program.findings.empty());
  }
  REQUIRE(run.program.findings.size() == (is_told ? 1 : 0));
  if (!is_told) return;
  const Finding& finding = run.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what == "100 % of the float16 gradient is zero in each of 8 steps");
  CHECK(finding.why ==
        "float16 flushes what is below 6e-8 to zero, and no loss scale was seen; it left nothing "
        "of any gradient, though the loss was up to 1.4e-06");
  CHECK(fact_of<std::int64_t>(finding, "parameters_count") == 2);
}

TEST_CASE("numeric-half-range stays silent on outputs", "[check]") {
  HalfSteps run;
  SECTION("on masks at the lowest value") {
    run.outputs(70, [](int) { return 65504; });
  }
  SECTION("on constants") {
    run.outputs(70, [](int) { return 40000; });
  }
  SECTION("on spikes of one step") {
    run.outputs(70, [](int i) { return i == 9 || i == 40 ? 50000 + i : 10; });
  }
  SECTION("on spikes that lie far apart") {
    run.outputs(200, [](int i) { return i % 40 == 0 ? 50000 + i : 10; });
  }
  SECTION("on growth that is too slow") {
    run.outputs(70, [](int i) { return 1100 * std::exp2(i / 200.0); });
  }
  SECTION("on growth of what is small, as at the begin of training") {
    run.outputs(120, [](int i) { return 0.1 * std::exp2(i / 15.0); });
  }
  SECTION("on growth that ends") {
    run.outputs(120, [](int i) { return 512 * std::exp2(std::min(i, 40) / 10.0); });
  }
  SECTION("on growth that is not steady") {
    run.outputs(70, [](int i) { return (i % 2 == 0 ? 1 : 200) * std::exp2(i / 20.0); });
  }
  SECTION("on values that shrink") {
    run.outputs(70, [](int i) { return 30000 * std::exp2(-i / 20.0); });
  }
  SECTION("on zeros") {
    run.outputs(70, [](int) { return 0; });
  }
  SECTION("on a module that is called often in one step") {
    for (int i = 0; i < 70; ++i) run.output(40000 + i);
  }
  SECTION("after events were lost, until there are as many again") {
    run.outputs(2, [](int i) { return 40000 + i; });
    run.program.drop_events();
    run.outputs(2, [](int i) { return 41000 + i; });
  }
  CHECK(run.program.findings.empty());
}

TEST_CASE("numeric-half-range stays silent on gradients", "[check]") {
  HalfSteps run;
  GradientValuesEvent event = flushed();
  SECTION("of bfloat16 and float32, as of dead ReLU") {
    event.dtype = GENERATE("bfloat16", "float32");
    run.gradients(40, event);
  }
  SECTION("with few zeros") {
    event.zero_count = 32;
    run.gradients(40, event);
  }
  SECTION("that are not small") {
    event.values.absmax = 1e-4;
    run.gradients(40, event);
  }
  SECTION("that are all zero: nobody uses the parameter") {
    event.values.absmax = 0;
    event.zero_count = 64;
    run.gradients(40, event);
  }
  SECTION("of a loss that is scaled") {
    run.scaled_step();
    run.gradients(40, event);
  }
  SECTION("after events were lost, until there are as many again") {
    run.gradients(31, event);
    run.program.drop_events();
    run.gradients(31, event);
  }
  CHECK(run.program.findings.empty());
}

}  // namespace ddpscope::test::numeric_half_range_test
