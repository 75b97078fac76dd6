// Parameters that differ from the start on beside others that do not.
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::own_parts_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)

constexpr char kDeclare[] =
    "if each rank is to have its own: DDPSCOPE=declare=expert.*=sharded, or "
    "Attachment::declare(\"expert.*\", kSharded)";

ValuesDiffer parts() {
  return {.step = 0,
          .compared = 6,
          .sides = {{"aa", {0}}, {"bb", {1}}, {"cc", {2}}, {"dd", {3}}},
          .tensors = {{.model = "Net", .path = "expert.weight", .requires_grad = true},
                      {.model = "Net", .path = "expert.bias", .requires_grad = true}},
          .differing = 2,
          .beside_equal = true,
          .module_path = "expert"};
}

Finding judged(const ValuesDiffer& values, bool were_broadcast = false) {
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].values = {values};
  run.cohorts[0].broadcasts_at_start = were_broadcast;
  return judge_run(run, "rank-parameters-differ").at(0);
}
}  // namespace

TEST_CASE("what each rank may have for itself is offered to be declared", "[check]") {
  const Finding finding = judged(parts(), GENERATE(true, false));
  CHECK(finding.why.starts_with("others are equal on all ranks"));
  REQUIRE(finding.fixes.size() == 2);
  CHECK(finding.fixes[0].applicability == Applicability::kLikely);
  CHECK(finding.fixes[1].text == kDeclare);
  ValuesDiffer spread = parts();
  spread.module_path.clear();
  CHECK(judged(spread).fixes.at(1).text.find("declare=expert.weight=sharded and so on") !=
        std::string::npos);
}

TEST_CASE("what begins differently as a whole, or is not trained, is told to be sent", "[check]") {
  ValuesDiffer values = parts();
  SECTION("beside constants") { values.beside_equal = false; }
  SECTION("without a gradient") {
    for (DifferingTensor& tensor : values.tensors) tensor.requires_grad = false;
  }
  const Finding finding = judged(values);
  CHECK(finding.why.starts_with("each process draws its own initial values"));
  CHECK(finding.fixes.at(0).applicability == Applicability::kSafe);
}

TEST_CASE("gradients of what each rank may have for itself are not told to be reduced first",
          "[check]") {
  const std::string path = GENERATE("expert.weight", "head.weight");
  const bool is_changed = GENERATE(false, true);
  ReductionStep step = {.step = 2,
                        .sampled = 6,
                        .calls = 4,
                        .backwards = 1,
                        .reduces_last = true,
                        .differing = 2,
                        .as_they_arrived = is_changed ? 0 : 2,
                        .first_differing = {.model = "Net", .path = path, .dtype = "float32"},
                        .largest_difference = 0.75};
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].values = {parts()};
  for (; step.step < 6; ++step.step) run.cohorts[0].reductions.push_back(step);
  const Finding finding = judge_run(run, "grad-not-reduced").at(0);
  const bool is_part = path == "expert.weight";
  CHECK(finding.fixes.at(0).text.starts_with("if all ranks are to have the same") == is_part);
  CHECK((finding.fixes.back().text == kDeclare) == is_part);
}

TEST_CASE("what all-to-alls feed is each rank's own", "[check]") {
  const bool is_routed = GENERATE(true, false);
  const std::int64_t differing = GENERATE(2, 3);  // beside them one that is not of these
  ReductionStep step = {.sampled = 6,
                        .calls = 4,
                        .backwards = 1,
                        .reduces_last = true,
                        .differing = differing,
                        .routes_activations = true,
                        .first_differing = {.model = "Net", .path = "expert.weight"}};
  RanksComparedEvent run = four_ranks();
  run.cohorts[0].values = {parts()};
  for (step.step = 2; step.step < 6; ++step.step) run.cohorts[0].reductions.push_back(step);
  run.cohorts[0].reductions.back().routes_activations = is_routed;
  const Finding values = judge_run(run, "rank-parameters-differ").at(0);
  CHECK(values.severity == (is_routed ? Severity::kNote : Severity::kError));
  CHECK((values.fixes.at(0).text.starts_with("none, where each rank has its own")) == is_routed);
  const Finding gradients = judge_run(run, "grad-not-reduced").at(0);
  CHECK((gradients.severity == Severity::kNote) == (is_routed && differing == 2));
  run.live = true;
  run.cohorts[0].reductions.clear();
  CHECK(judge_run(run, "rank-parameters-differ").empty());
}

}  // namespace ddpscope::test::own_parts_test
