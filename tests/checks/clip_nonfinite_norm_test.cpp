#include <cmath>
#include <limits>

#include "checks/cause_links.h"
#include "tests/support/catch.h"
#include "tests/support/clip_steps.h"
#include "tests/support/events.h"

namespace ddpscope::test::clip_nonfinite_norm_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "enc.0.weight"},
                                      {.id = 2, .path = "enc.0.bias"}};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

void begin(Program& program) {
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  program.backward({1, 2});
}
}  // namespace

TEST_CASE("clip-nonfinite-norm reports a NaN norm that spreads to all gradients", "[check]") {
  Program program("clip-nonfinite-norm");
  begin(program);
  nonfinite(program, 2, {.elements = 64, .nan_count = 1});
  clip(program, 1, kNan);
  CHECK(program.findings.empty());
  program.step(1);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.model == "net");
  CHECK(finding.what == "total gradient norm is NaN; clipping set all 2 gradients to NaN");
  CHECK(finding.why == "only enc.0.bias was non-finite (1 of 64 elements) before it");
  CHECK(fact_of<std::string>(finding, "norm_kind") == "nan");
  CHECK(fact_of<std::int64_t>(finding, "nonfinite_count") == 1);
  CHECK(fact_of<std::int64_t>(finding, "gradients_count") == 2);
  CHECK(fact_of<double>(finding, "after_zero_ratio") == 0);
  CHECK(fact_of<std::vector<FactScalar>>(finding, "first_parameters") ==
        std::vector<FactScalar>{std::string("enc.0.bias")});
  CHECK(cause_of(finding) == "nonfinite_gradient");
}

TEST_CASE("clip-nonfinite-norm takes the edit of a single gradient for no clip", "[check]") {
  Program program("clip-nonfinite-norm");
  program.attach(1, {kNet[0], kNet[1], {.id = 3, .path = "out.weight"}});
  program.optimizer(1, {1, 2, 3});
  program.backward({1, 2, 3});
  const bool most = GENERATE(false, true);
  clip(program, 1, kNan, /*gradients=*/most ? 2 : 1);
  program.step(1);
  CHECK(program.findings.size() == (most ? 1U : 0U));
}

TEST_CASE("clip-nonfinite-norm says where no gradient was finite", "[check]") {
  Program program("clip-nonfinite-norm");
  begin(program);
  for (const TensorId id : {2, 1}) nonfinite(program, id, {.elements = 4, .nan_count = 4});
  clip(program, 1, kNan);
  program.step(1);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why == "enc.0.bias, enc.0.weight were non-finite before it");
}

TEST_CASE("clip-nonfinite-norm reports an Inf norm that sets finite gradients to 0", "[check]") {
  Program program("clip-nonfinite-norm");
  begin(program);
  SECTION("of one Inf") {
    nonfinite(program, 1, {.elements = 4, .inf_count = 1});
    clip(program, 1, kInf);
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(program.findings[0].what ==
          "total gradient norm is Inf; clipping set 1 of 2 gradients to 0 and left NaN in 1");
    CHECK(fact_of<double>(program.findings[0], "after_zero_ratio") == 0.5);
  }
  SECTION("of finite gradients whose squares overflow") {
    arrived(program, 1e30);
    clip(program, 1, kInf);
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(program.findings[0].what ==
          "total gradient norm is Inf; clipping set all 2 gradients to 0");
    CHECK(cause_of(program.findings[0]) == "overflow_of_square");
    CHECK(fact_of<double>(program.findings[0], "after_zero_ratio") == 1);
  }
  SECTION("with a factor of the program's own") {
    nonfinite(program, 1, {.elements = 4, .inf_count = 1});
    scale(program, 0);
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(fact_of<std::string>(program.findings[0], "norm_kind") == "inf");
  }
}

TEST_CASE("clip-nonfinite-norm explains the parameters that a later forward reads", "[check]") {
  const Finding clipped{.id = "clip-nonfinite-norm", .step = 4};
  Finding read{.id = "numeric-nonfinite-forward", .step = 5};
  read.facts = {{"cause", std::string("parameter")}};
  CHECK(explains(clipped, read));
  Finding same_step = read;
  same_step.step = 4;
  CHECK_FALSE(explains(clipped, same_step));
  Finding other_rank = read;
  other_rank.rank = 1;
  CHECK_FALSE(explains(clipped, other_rank));
  Finding batch = read;
  batch.facts = {{"cause", std::string("batch")}};
  CHECK_FALSE(explains(clipped, batch));
}

TEST_CASE("clip-nonfinite-norm explains later norms where it left NaN in parameters", "[check]") {
  const auto clipped = [](std::int64_t step, const char* kind, std::int64_t nonfinite) {
    return Finding{.id = "clip-nonfinite-norm",
                   .step = step,
                   .model = "net",
                   .facts = {{"norm_kind", std::string(kind)}, {"nonfinite_count", nonfinite}}};
  };
  const Finding later = clipped(9, "nan", 3);
  CHECK(explains(clipped(4, "nan", 0), later));
  CHECK(explains(clipped(4, "inf", 1), later));
  CHECK_FALSE(explains(clipped(4, "inf", 0), later));  // it set all gradients to 0
  CHECK_FALSE(explains(clipped(9, "nan", 3), later));
  Finding of_other = clipped(4, "nan", 0);
  of_other.model = "other";
  CHECK_FALSE(explains(of_other, later));
}

TEST_CASE("clip-nonfinite-norm follows from what made the gradient in that step", "[check]") {
  Finding clipped{.id = "clip-nonfinite-norm", .step = 4};
  clipped.facts = {{"cause", std::string("nonfinite_gradient")}};
  Finding made{.id = "numeric-nonfinite-backward", .step = 4};
  CHECK(explains(made, clipped));
  made.step = 3;
  CHECK_FALSE(explains(made, clipped));
  made.step = 4;
  clipped.facts = {{"cause", std::string("overflow_of_square")}};
  CHECK_FALSE(explains(made, clipped));
}

TEST_CASE("clip-nonfinite-norm says what it does not know", "[check]") {
  Program program("clip-nonfinite-norm");
  begin(program);
  SECTION("where the gradients were not read") {
    clip(program, 1, kNan);
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(cause_of(program.findings[0]) == "unknown");
    CHECK(program.findings[0].why == "the gradients were not read as they arrived");
  }
  SECTION("where they were finite and too small for a norm of Inf") {
    arrived(program, 1);
    clip(program, 1, kInf);
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(cause_of(program.findings[0]) == "written_after_backward");
    CHECK(program.findings[0].what.ends_with("to 0 and left NaN where Inf was"));
    CHECK(program.findings[0].why.ends_with("something wrote Inf into them before the clipping"));
  }
  SECTION("where they were finite and the norm is NaN") {
    arrived(program, 1);
    scale(program, kNan);
    program.step(1);
    REQUIRE(program.findings.size() == 1);
    CHECK(cause_of(program.findings[0]) == "written_after_backward");
  }
}

TEST_CASE("clip-nonfinite-norm names three parameters and counts the others", "[check]") {
  Program program("clip-nonfinite-norm");
  program.attach(1, {{.id = 1, .path = "a"},
                     {.id = 2, .path = "b"},
                     {.id = 3, .path = "c"},
                     {.id = 4, .path = "d"},
                     {.id = 5, .path = "e"}});
  program.optimizer(1, {1, 2, 3, 4, 5});
  program.backward({1, 2, 3, 4, 5});
  for (const TensorId id : {5, 4, 3, 2}) nonfinite(program, id, {.elements = 4, .nan_count = 4});
  clip(program, 1, kNan, 5);
  program.step(1);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why == "only e, d, c and 1 more were non-finite before it");
}

TEST_CASE("clip-nonfinite-norm reports at once without an optimizer", "[check]") {
  Program program("clip-nonfinite-norm");
  program.attach(1, kNet);
  program.backward({1, 2});
  clip(program, 1, kNan);
  CHECK(program.findings.size() == 1);
}

TEST_CASE("clip-nonfinite-norm stays silent", "[check]") {
  Program program("clip-nonfinite-norm");
  begin(program);
  SECTION("where the norm is tested before the write and the step left out") {
    nonfinite(program, 2, {.elements = 64, .nan_count = 1});
    program.zero_grad(1);
    program.backward({1, 2});
    clip(program, 1, 3);
    program.step(1);
  }
  SECTION("where the norm is tested after the write and the step left out") {
    nonfinite(program, 2, {.elements = 64, .nan_count = 1});
    clip(program, 1, kNan);
    program.zero_grad(1);
    program.backward({1, 2});
    clip(program, 1, 3);
    program.step(1);
  }
  SECTION("where the gradients are replaced before the clip") {
    nonfinite(program, 2, {.elements = 64, .nan_count = 1});
    clip(program, 1, 3);
    program.step(1);
  }
  SECTION("on a step without gradients to clip") {
    nonfinite(program, 2, {.elements = 64, .nan_count = 1});
    program.step(1);
  }
  SECTION("on gradients that are cleared by a multiplication with 0") {
    scale(program, 0);
    program.step(1);
  }
  SECTION("on what an earlier gradient held") {
    nonfinite(program, 2, {.elements = 64, .inf_count = 1});
    program.zero_grad(1);
    program.backward({1, 2});
    scale(program, 0);
    program.step(1);
  }
  SECTION("on the step of another optimizer") {
    clip(program, 1, kNan);
    program.attach(2, {{.id = 9, .path = "w"}});
    program.optimizer(2, {9});
    program.step(2);
  }
  SECTION("where lost events hide what happened") {
    clip(program, 1, kNan);
    program.drop_events();
    program.step(1);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::clip_nonfinite_norm_test
