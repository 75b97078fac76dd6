#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::optim_update_size_test {
namespace {
struct Loop {
  Program program{"optim-update-size"};
  ParameterUpdate moves{.tensor = 1, .update_ratio = 1e-3, .gradient_norm = 1, .lr = 0.1};
  ParameterUpdate still{.tensor = 2, .unchanged = true, .gradient_norm = 3e-4, .lr = 1e-6};

  Loop() {
    program.attach(1, {{.id = 1, .path = "body.weight", .shape = {4, 2}},
                       {.id = 2, .path = "embed.weight", .shape = {8, 4}}});
    program.optimizer(1, {1, 2});
  }

  void step() {
    program.backward({1, 2});
    ++steps_;
    if (steps_ > 100 && steps_ % 16 == 1) {
      program.send_now(ParameterUpdatesEvent{.optimizer = 1, .members = {moves, still}});
    }
    program.step(1);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }
  /// Of 40 steps the last alone is watched.
  void sample_after_rest() {
    program.rest(1, 39);
    program.backward({1, 2});
    program.send_now(ParameterUpdatesEvent{.optimizer = 1, .members = {moves, still}});
    program.step(1);
  }
  void rest(int count) {
    for (int i = 0; i < count; ++i) {
      program.backward({1, 2});
      program.step(1);
    }
  }
  CheckCoverage coverage() { return program.judge().coverage().at("optim-update-size"); }

 private:
  int steps_ = 0;
};
}  // namespace

TEST_CASE("optim-update-size reports steps that change no bit of a parameter", "[check]") {
  Loop loop;
  loop.steps(227);
  CHECK(loop.program.findings.empty());
  loop.steps(1);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.step == 228);
  CHECK(finding.module_path == "embed");
  CHECK(finding.what ==
        "step() changed 0 of 32 elements in 8 sampled steps although gradients are 0.0003 "
        "(no_effect)");
  CHECK(finding.why ==
        "learning rate 1e-06: the update is below half a unit in the last place of float32");
  CHECK(cause_of(finding) == "no_effect");
  CHECK(fact_of<double>(finding, "update_ratio") == 0);
  CHECK(fact_of<double>(finding, "gradient_norm") == 3e-4);
  CHECK(fact_of<double>(finding, "lr") == 1e-6);
  CHECK(fact_of<std::string>(finding, "dtype") == "float32");
  CHECK(fact_of<std::int64_t>(finding, "samples_count") == 8);
}

TEST_CASE("optim-update-size names a learning rate of 0", "[check]") {
  Loop loop;
  loop.still.lr = 0;
  loop.steps(163);
  CHECK(loop.program.findings.empty());
  loop.steps(1);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].why == "the learning rate of their group is 0");
  CHECK(loop.program.findings[0].severity == Severity::kNote);  // others are trained
}

TEST_CASE("optim-update-size judges each sample that follows a rest", "[check]") {
  Loop loop;
  loop.steps(64);
  for (int i = 0; i < 7; ++i) loop.sample_after_rest();
  CHECK(loop.program.findings.empty());
  loop.sample_after_rest();
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].step == 64 + 8 * 40);
}

TEST_CASE("optim-update-size takes a rate that nobody tells for no rate of 0", "[check]") {
  Loop loop;
  loop.still.lr = NAN;
  loop.steps(228);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(finding.why == "the update is below half a unit in the last place of float32");
  CHECK(finding.fixes[1].text == "a learning rate above this one");
  CHECK(std::ranges::find(finding.facts, "lr", &Fact::key) == finding.facts.end());
}

TEST_CASE("optim-update-size reports updates that vanish towards the first layer", "[check]") {
  Loop loop;
  std::swap(loop.moves.tensor, loop.still.tensor);
  loop.still.gradient_norm = 1e-9;
  loop.moves.gradient_norm = 1e-2;
  std::string change = "less than 1e-12";
  SECTION("and round away") {}
  SECTION("and hardly show") {
    loop.still.unchanged.reset();
    loop.still.update_ratio = 1e-9;
    change = "1e-09";
  }
  loop.steps(228);
  REQUIRE(loop.program.findings.size() == 1);
  const Finding& finding = loop.program.findings[0];
  CHECK(cause_of(finding) == "vanishing");
  CHECK(finding.what == "a step changes 1 parameter by " + change +
                            " of its size (median of 8 sampled steps; vanishing)");
  CHECK(finding.module_path == "body");
  CHECK(finding.why ==
        "the gradient of the first layer is 1e-07 of that of the last: it fades on its way back");
}

TEST_CASE("optim-update-size reports updates of half the size of the weights", "[check]") {
  Loop loop;
  loop.still = {.tensor = 2, .update_ratio = 0.5, .gradient_norm = 1, .lr = 10};
  loop.steps(228);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(cause_of(loop.program.findings[0]) == "exploding");
  CHECK(loop.program.findings[0].what ==
        "a step changes 1 parameter by 0.5 of its size (median of 8 sampled steps; exploding)");
}

TEST_CASE("optim-update-size leaves matrices of a few weights out", "[check]") {
  Loop loop;
  loop.moves.update_ratio = 0.5;
  loop.still.unchanged.reset();
  loop.still.update_ratio = 1e-3;
  loop.steps(228);
  CHECK(loop.program.findings.empty());
}

TEST_CASE("optim-update-size goes by the median of the updates", "[check]") {
  Loop loop;
  const int large = GENERATE(4, 5);  // of 8 samples
  loop.still = {.tensor = 2, .gradient_norm = 1, .lr = 10};
  for (int sample = 0; sample < 8; ++sample) {
    loop.still.update_ratio = sample < large ? 0.15 : 0.01;
    loop.steps(sample == 0 ? 116 : 16);
  }
  CHECK(loop.program.findings.empty() == (large == 4));
}

TEST_CASE("optim-update-size tells nothing of weights that are not finite", "[check]") {
  Loop loop;
  loop.still = {.tensor = 2, .update_ratio = 1, .gradient_norm = std::nan(""), .lr = 10};
  loop.steps(228);
  CHECK(loop.program.findings.empty());
}

TEST_CASE("optim-update-size merges what is alike below one module", "[check]") {
  Loop loop;
  loop.moves = loop.still;
  loop.moves.tensor = 1;
  loop.steps(228);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(fact_of<std::int64_t>(loop.program.findings[0], "parameters_count") == 2);
}

TEST_CASE("optim-update-size stays silent", "[check]") {
  Loop loop;
  Program& program = loop.program;
  SECTION("while the learning rate rises") {
    const bool explodes = GENERATE(true, false);
    if (explodes) loop.still = {.tensor = 2, .update_ratio = 0.5, .gradient_norm = 1};
    for (int i = 0; i < 300; ++i) {
      loop.still.lr = 1e-9 * i;
      loop.step();
    }
  }
  SECTION("on rows of an embedding that are not in the batch") {
    loop.still.unchanged = false;
    loop.steps(300);
  }
  SECTION("on a parameter of which only a sample was compared") {
    loop.still.unchanged.reset();
    loop.steps(300);
  }
  SECTION("on branches that start at zero") {
    loop.still.size_is_zero = true;
    loop.still.update_ratio = GENERATE(0.0, 1.0);
    loop.steps(300);
  }
  SECTION("on frozen parameters") {
    program.attach(1, {{.id = 1, .path = "body.weight", .shape = {4, 2}},
                       {.id = 2, .path = "embed.weight", .shape = {8, 4}, .requires_grad = false}});
    program.members(1, {{1, 2}}, /*frozen=*/{2});
    for (int i = 0; i < 300; ++i) {
      if (i % 16 == 0) {
        program.send_now(ParameterUpdatesEvent{.optimizer = 1, .members = {loop.still}});
      }
      program.step(1);
    }
  }
  SECTION("on biases near zero") {
    program.attach(1, {{.id = 1, .path = "body.weight", .shape = {4, 2}},
                       {.id = 2, .path = "body.bias", .shape = {8}}});
    loop.still = {.tensor = 2, .update_ratio = 0.5, .gradient_norm = 1};
    loop.steps(300);
  }
  SECTION("on what rounding leaves of a gradient that is zero") {
    loop.still.lr = 0.1;
    loop.still.gradient_norm = 1e-8;
    loop.steps(300);
  }
  SECTION("on a large update now and then") {
    for (int i = 0; i < 300; ++i) {
      loop.still = {.tensor = 2, .update_ratio = i / 16 % 3 == 0 ? 0.5 : 0.01, .gradient_norm = 1};
      loop.step();
    }
  }
  SECTION("on small updates where gradients do not fade") {
    loop.still = {.tensor = 2, .update_ratio = 1e-9, .gradient_norm = 1, .lr = 0.1};
    loop.steps(300);
  }
  SECTION("where lost events hide what happened") {
    loop.steps(200);
    program.drop_events();
    loop.steps(100);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("optim-update-size leaves float32 alone that moved before and has converged", "[check]") {
  Loop loop;
  loop.still.unchanged = false;
  loop.still.update_ratio = 1e-3;
  loop.steps(228);
  loop.still.unchanged = true;
  loop.still.update_ratio = 0;
  loop.steps(400);
  CHECK(loop.program.findings.empty());
  loop.still.lr = 1e-13;  // of a schedule that goes on and on
  loop.steps(144);
  REQUIRE(loop.program.findings.size() == 1);
  CHECK(loop.program.findings[0].fixes.at(0).text.starts_with("look at the schedule"));
}

TEST_CASE("optim-update-size reports 16-bit weights that moved before and are stuck", "[check]") {
  Loop loop;
  loop.program.attach(1, {{.id = 1, .path = "body.weight", .shape = {4, 2}},
                          {.id = 2, .path = "embed.weight", .shape = {8, 4}, .dtype = "bfloat16"}});
  loop.still.unchanged = false;
  loop.still.update_ratio = 1e-3;
  loop.steps(228);
  loop.still.unchanged = true;
  loop.still.update_ratio = 0;
  loop.steps(400);
  REQUIRE(!loop.program.findings.empty());
  CHECK(cause_of(loop.program.findings[0]) == "no_effect");
  CHECK(loop.program.findings[0].why ==
        "learning rate 1e-06: the update is below half a unit in the last place of bfloat16");
}

TEST_CASE("optim-update-size does not pass a run that gave too few samples", "[check]") {
  Loop loop;
  loop.still = loop.moves;
  loop.still.tensor = 2;
  SECTION("of few steps nothing is expected") {
    loop.steps(200);
    loop.program.send(ExitEvent{loop.program.now()});
    CHECK(loop.coverage().state == CheckState::kPassed);
  }
  SECTION("all samples") {
    loop.steps(228);
    loop.program.send(ExitEvent{loop.program.now()});
    CHECK(loop.coverage().state == CheckState::kPassed);
  }
  SECTION("there is none") {
    loop.rest(400);
    loop.program.send(ExitEvent{loop.program.now()});
    CHECK(loop.coverage().state == CheckState::kBlocked);
  }
  SECTION("samples are missing") {
    loop.steps(130);
    loop.rest(400);
    loop.program.send(ExitEvent{loop.program.now()});
    CHECK(loop.coverage().state == CheckState::kBlocked);
    CHECK(loop.coverage().why == "2 of 8 samples in 530 steps: the budget allowed no more");
  }
  CHECK(loop.program.findings.empty());
}

}  // namespace ddpscope::test::optim_update_size_test
