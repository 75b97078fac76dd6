#include "tests/support/catch.h"
#include "tests/support/clip_steps.h"
#include "tests/support/events.h"

namespace ddpscope::test::clip_always_active_test {
namespace {
struct Loop {
  Program program{"clip-always-active"};

  Loop() {
    program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
    program.optimizer(1, {1, 2});
  }

  void begin() {
    program.zero_grad(1);
    program.backward({1, 2});
  }
  void steps(int count, double limit, double norm) {
    for (int i = 0; i < count; ++i) {
      begin();
      clip(program, limit, norm);
      program.step(1);
    }
  }
};
}  // namespace

TEST_CASE("clip-always-active warns of a limit that acts in every step", "[check]") {
  Loop loop;
  loop.steps(399, 0.01, 2);
  CHECK(loop.program.findings.empty());
  loop.steps(1, 0.01, 2);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.step == 400);
  CHECK(finding.what == "clipping was active in 200 of the last 200 steps, median factor 0.005");
  CHECK(finding.why == "limit 0.01, norms 2 to 2, 90th percentile 2");
  CHECK(cause_of(finding) == "always_active");
  CHECK(fact_of<double>(finding, "active_ratio") == 1);
  CHECK(fact_of<double>(finding, "factor_median") == 0.005);
  CHECK(fact_of<double>(finding, "max_norm") == 0.01);
  CHECK(fact_of<double>(finding, "norm_p50") == 2);
  CHECK(fact_of<double>(finding, "norm_p90") == 2);
  CHECK(fact_of<std::int64_t>(finding, "window_steps") == 200);
}

TEST_CASE("clip-always-active takes 32 steps of more than 200 where hooks rest", "[check]") {
  Loop loop;
  loop.steps(200, 0.01, 2);
  const auto watch = [&](int count) {
    for (int i = 0; i < count; ++i) {
      loop.program.rest(1, 9);
      loop.steps(1, 0.01, 2);
    }
  };
  watch(31);
  CHECK(loop.program.findings.empty());
  watch(1);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.what ==
        "clipping was active in 32 of 32 watched steps of the last 311, median factor 0.005");
  CHECK(fact_of<std::int64_t>(finding, "window_steps") == 311);
}

TEST_CASE("clip-always-active suggests the norm that most steps stay below", "[check]") {
  Loop loop;
  loop.steps(200, 0.01, 1);
  for (int i = 0; i < 200; ++i) loop.steps(1, 0.01, 1 + 0.01 * i);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].fixes[0].text == "a limit near 2.8");
}

TEST_CASE("clip-always-active does not pass a run of which it saw too few clips", "[check]") {
  Loop loop;
  const auto coverage = [&](std::int64_t step) {
    loop.program.send(ExitEvent{.at = {.step = step, .cycle = step, .thread = 1}});
    return loop.program.judge().coverage().at("clip-always-active");
  };
  SECTION("all of them") {
    loop.steps(400, 1, 2);
    CHECK(coverage(401).state == CheckState::kPassed);
  }
  SECTION("in few steps nothing is expected") {
    loop.steps(240, 1, 2);
    CHECK(coverage(241).state == CheckState::kPassed);
  }
  SECTION("hooks rested") {
    loop.steps(60, 1, 2);
    const CheckCoverage found = coverage(501);
    CHECK(found.state == CheckState::kBlocked);
    CHECK(found.why == "0 of 32 steps with a clip in 500 steps: the budget allowed no more");
  }
  CHECK(loop.program.findings.empty());
}

TEST_CASE("clip-always-active says error of a factor below 0.001 after 50 steps", "[check]") {
  Loop loop;
  loop.steps(249, 1e-4, 1);
  CHECK(loop.program.findings.empty());
  loop.steps(1, 1e-4, 1);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].severity == Severity::kError);
}

TEST_CASE("clip-always-active says error of a negative limit at once", "[check]") {
  Loop loop;
  loop.steps(1, -1, 2);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].severity == Severity::kError);
  CHECK(loop.program.findings[0].what == "gradients are clipped to the negative norm -1");
  CHECK(cause_of(loop.program.findings[0]) == "negative_limit");
}

TEST_CASE("clip-always-active says error of a limit of 0 at once", "[check]") {
  Loop loop;
  loop.steps(1, 0, 2);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].severity == Severity::kError);
  CHECK(loop.program.findings[0].what == "gradients are clipped to the norm 0");
  CHECK(cause_of(loop.program.findings[0]) == "zero_limit");
}

TEST_CASE("clip-always-active notes a limit that 1000 steps did not reach", "[check]") {
  Loop loop;
  loop.steps(999, 10, 1);
  CHECK(loop.program.findings.empty());
  loop.steps(1, 10, 1);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].severity == Severity::kNote);
  CHECK(loop.program.findings[0].why == "limit 10 was not reached in them");
  CHECK(cause_of(loop.program.findings[0]) == "never_reached");
}

TEST_CASE("clip-always-active is explained by a clip of gradients that carry a scale", "[check]") {
  Program program("clip-always-active,clip-before-unscale");
  program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
  program.optimizer(1, {1, 2});
  program.roots = {50};
  for (int i = 0; i < 250; ++i) {
    program.op({.name = "aten::mul", .inputs = {40}, .outputs = {50}, .factor = 1024});
    program.zero_grad(1);
    program.backward({1, 2});
    clip(program, 1, 2048);
    scale(program, 1.0 / 1024);
    program.step(1);
  }
  const Findings cause = program.with_id("clip-before-unscale");
  const Findings effect = program.with_id("clip-always-active");
  REQUIRE(!cause.empty());
  REQUIRE(effect.size() == 1);
  CHECK(effect[0].caused_by == cause[0].fingerprint);
}

TEST_CASE("clip-always-active counts steps in which the program does not clip", "[check]") {
  Loop loop;
  loop.steps(200, 0.01, 2);
  for (int i = 0; i < 200; ++i) {
    loop.begin();
    if (i % 10 > 0) clip(loop.program, 0.01, 2);
    loop.program.step(1);
  }
  CHECK(loop.program.findings.empty());
}

TEST_CASE("clip-always-active counts the steps of the optimizer that clips", "[check]") {
  Program program("clip-always-active");
  program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
  program.optimizer(1, {1});
  program.optimizer(2, {2});
  for (int i = 0; i < 400; ++i) {
    program.zero_grad(1);
    program.backward({1, 2});
    clip(program, 0.01, 2, 1);
    program.step(1);
    program.step(2);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(fact_of<double>(program.findings[0], "active_ratio") == 1);
}

TEST_CASE("clip-always-active knows a clip whose factor the program computes", "[check]") {
  Loop loop;
  for (int i = 0; i < 420; ++i) {
    const double norm = 1 + 0.01 * (i % 7);
    loop.begin();
    if (i < 64) arrived(loop.program, norm);
    scale(loop.program, 0.013 / norm);
    loop.program.step(1);
  }
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(fact_of<double>(loop.program.findings[0], "max_norm") == Approx(0.013).epsilon(0.01));
}

TEST_CASE("clip-always-active stays silent", "[check]") {
  Loop loop;
  Program& program = loop.program;
  SECTION("in the first 200 steps") {
    loop.steps(200, 0.01, 1);
    loop.steps(220, 10, 1);
  }
  SECTION("on rules per parameter") {
    program.attach(1, {{.id = 1, .path = "a"}, {.id = 2, .path = "b"}, {.id = 3, .path = "c"}});
    program.members(1, {{1, 2, 3}});
    for (int i = 0; i < 420; ++i) {
      program.zero_grad(1);
      program.backward({1, 2, 3});
      for (const TensorId id : {1, 2, 3}) clip(program, 0.01, static_cast<double>(id), 1, id);
      program.step(1);
    }
  }
  SECTION("on a small limit that is declared") {
    program.declare("", "intended");
    loop.steps(420, 1e-4, 1);
  }
  SECTION("on a factor above 0.1") { loop.steps(420, 0.2, 1); }
  SECTION("on a constant factor such as that of an average") {
    for (int i = 0; i < 420; ++i) {
      loop.begin();
      arrived(program, 1 + 0.1 * (i % 5));
      scale(program, 0.05);
      program.step(1);
    }
  }
  SECTION("on a scale that is divided out while it is adapted") {
    for (int i = 0; i < 420; ++i) {
      const double scaled_by = i % 2 == 0 ? 1024 : 2048;
      loop.begin();
      arrived(program, scaled_by);
      scale(program, 1 / scaled_by);
      program.step(1);
    }
  }
  SECTION("where lost events hide what happened") {
    loop.steps(300, 0.01, 1);
    program.drop_events();
    loop.steps(120, 0.01, 1);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::clip_always_active_test
