#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"
#include "tests/support/drifted_values.h"

namespace ddpscope::test::rank_parameters_differ_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kId[] = "rank-parameters-differ";

ValuesDiffer unequal_start() {
  return {.step = 0,
          .compared = 62,
          .sides = {{"aa", {0}}, {"bb", {1}}, {"cc", {2}}, {"dd", {3}}},
          .tensors = {{.model = "Net", .path = "a", .requires_grad = true},
                      {.model = "Net", .path = "b", .requires_grad = true}},
          .differing = 62};
}
}  // namespace

TEST_CASE("rank-parameters-differ tells replicas that were never made equal", "[check]") {
  const Findings findings = judge_run(with_values(unequal_start()), kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what ==
        "62 of 62 parameters differ between ranks before the first step (init_not_synced)");
  CHECK(finding.step == 0);
  CHECK(finding.phase == Phase::kInit);
  CHECK(finding.ranks == RankList{0, 1, 2, 3});
  CHECK(finding.model == "Net");
  CHECK(finding.module_path.empty());
  CHECK(finding.subject.empty());
  CHECK(fact_in(finding, "cause") == text_of("init_not_synced"));
  CHECK(fact_in(finding, "first_bad_step") == FactValue(std::int64_t{0}));
  CHECK(fact_in(finding, "differing_count") == FactValue(std::int64_t{62}));
  CHECK(fact_in(finding, "first_path") == text_of("a"));
  CHECK(fact_in(finding, "last_equal_step") == text_of("absent"));
  CHECK(finding.fixes.at(0).text.starts_with("broadcast"));
}

TEST_CASE("rank-parameters-differ tells of broadcasts before", "[check]") {
  RanksComparedEvent run = with_values(unequal_start());
  run.cohorts[0].broadcasts_at_start = true;
  const Finding finding = judge_run(run, kId).at(0);
  CHECK(finding.why.starts_with("broadcasts of as many elements ran before"));
  CHECK(
      finding.fixes.at(0).text.starts_with("broadcast every parameter and buffer of rank 0 after"));
}

TEST_CASE("rank-parameters-differ does not take broadcasts of what trains for those of the rest",
          "[check]") {
  ValuesDiffer values = unequal_start();
  for (DifferingTensor& tensor : values.tensors) tensor.requires_grad = false;
  RanksComparedEvent run = with_values(values);
  run.cohorts[0].broadcasts_at_start = true;
  CHECK(judge_run(run, kId).at(0).why.starts_with("each process draws its own initial values"));
}

TEST_CASE("rank-parameters-differ tells of what was registered while ranks trained", "[check]") {
  ValuesDiffer values = drift_of_one();
  values.are_new = true;
  const Finding finding = judge_run(with_values(values), kId).at(0);
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.what ==
        "1 of 62 parameters differ between ranks when step 8 began and were registered after step "
        "7 (init_not_synced)");
  CHECK(finding.fixes.at(0).text.starts_with("broadcast what is registered later"));
  CHECK(fact_in(finding, "cause") == text_of("init_not_synced"));
  CHECK(fact_in(finding, "differing_input") == text_of("absent"));
}

TEST_CASE("rank-parameters-differ tells that only the start was sent", "[check]") {
  RanksComparedEvent run = with_values(drift_of_one());
  exchange_nothing(run);
  run.cohorts[0].broadcasts_at_start = true;
  const Findings findings = judge_run(run, kId);
  CHECK(findings.at(0).severity == Severity::kWarning);
  CHECK(findings[0].why.find("broadcast before the first step") != std::string::npos);
}

TEST_CASE("rank-parameters-differ tells replicas that parted, and between which steps", "[check]") {
  const Findings findings = judge_run(with_values(drift_of_one()), kId);
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.what ==
        "1 of 62 parameters differ between ranks when step 8 began and were equal when "
        "step 4 began (drift)");
  CHECK(finding.step == 8);
  CHECK(finding.module_path == "trunk.conv");
  CHECK(finding.subject == "weight");
  CHECK(fact_in(finding, "cause") == text_of("drift"));
  CHECK(fact_in(finding, "last_equal_step") == FactValue(std::int64_t{4}));
  CHECK(fact_in(finding, "minority_ranks") == ranks_of({1}));
  CHECK(fact_in(finding, "differing_input") == text_of("absent"));
}

TEST_CASE("rank-parameters-differ tells the estimate of how far ranks lie apart", "[check]") {
  ValuesDiffer values = drift_of_one();
  values.estimate = {{.step = 8, .path = "trunk.conv.weight", .norm = 1e-6, .relative = 2e-7}};
  const Finding finding = judge_run(with_values(values), kId).at(0);
  CHECK(fact_in(finding, "estimated_in") == text_of("trunk.conv.weight"));
  CHECK(fact_in(finding, "estimated_difference_norm") == FactValue(1e-6));
  CHECK(fact_in(finding, "estimated_relative_difference") == FactValue(2e-7));
  CHECK(fact_in(judge_run(with_values(drift_of_one()), kId).at(0), "estimated_in") ==
        text_of("absent"));
}

TEST_CASE("rank-parameters-differ is a note on what parts of the ranks average by themselves",
          "[check]") {
  ValuesDiffer values = unequal_start();
  for (DifferingTensor& tensor : values.tensors) {
    tensor.sides = {{"aa", {0, 1}}, {"bb", {2, 3}}};
  }
  RanksComparedEvent run = with_values(values);
  CHECK(judge_run(run, kId).at(0).severity == Severity::kError);
  run.cohorts[0].parts = {{0, 1}, {2, 3}};
  CHECK(judge_run(run, kId).at(0).severity == Severity::kNote);
  run.cohorts[0].values[0].tensors[1].sides = {{"aa", {0}}, {"bb", {1, 2, 3}}};
  CHECK(judge_run(run, kId).at(0).severity == Severity::kError);
}

TEST_CASE("rank-parameters-differ names the ranks that are unlike most", "[check]") {
  CHECK(judge_run(with_values(drift_of_one()), kId)
            .at(0)
            .why.starts_with("rank 1 is unlike the others; "));
  CHECK(judge_run(with_values(unequal_start()), kId).at(0).why.starts_with("each process draws"));
}

TEST_CASE("rank-parameters-differ names what the ranks differed in first", "[check]") {
  const auto input_of = [](const std::vector<DigestsDiffer>& digests, bool gradients) {
    RanksComparedEvent run = with_values(drift_of_one());
    run.cohorts[0].digests = digests;
    if (gradients) run.cohorts[0].gradients = {{.step = 8, .steps = 1}};
    return fact_in(judge_run(run, kId).at(0), "differing_input");
  };
  CHECK(input_of({{.field = DigestField::kLearningRate, .step = 5, .first_step = 5}}, false) ==
        text_of("lr"));
  CHECK(input_of({{.field = DigestField::kLearningRate, .step = 9, .first_step = 9}}, false) ==
        text_of("absent"));
  CHECK(input_of({{.field = DigestField::kSkippedSteps, .step = 5, .first_step = 5}}, false) ==
        text_of("skip"));
  CHECK(input_of({{.field = DigestField::kState, .step = 1, .first_step = 1}}, false) ==
        text_of("state"));
  CHECK(input_of({{.field = DigestField::kOptimizers, .step = 5, .first_step = 5}}, false) ==
        text_of("options"));
  CHECK(input_of({{.field = DigestField::kLearningRate, .step = 5, .first_step = 5}}, true) ==
        text_of("gradient"));
}

TEST_CASE("rank-parameters-differ sends to the finding of what the optimizers differ in",
          "[check]") {
  RanksComparedEvent run = with_values(drift_of_one());
  CHECK(judge_run(run, kId).at(0).fixes.at(0).text.starts_with("average every gradient"));
  const auto fix_with = [&run](DigestField field, std::int64_t steps) {
    run.cohorts[0].digests = {{.field = field, .step = 5, .first_step = 5, .consecutive = steps}};
    const Findings findings = judge_run(run, kId);
    REQUIRE(findings.at(0).fixes.size() == 1);
    return findings[0].fixes[0].text;
  };
  for (const DigestField field : {DigestField::kState, DigestField::kLearningRate,
                                  DigestField::kSkippedSteps, DigestField::kOptimizers}) {
    CHECK(fix_with(field, 2) == "make equal on all ranks what rank-optimizer-differs tells of");
    // Of one step it tells nothing.
    CHECK(fix_with(field, 1).find("rank-optimizer-differs") == std::string::npos);
  }
  CHECK(fix_with(DigestField::kMembers, 1).find("rank-optimizer-differs") != std::string::npos);
  CHECK(fix_with(DigestField::kLearningRate, 1) ==
        "give all ranks the same learning rate in each step");
}

TEST_CASE("rank-parameters-differ compares no gradients of ranks that skipped steps", "[check]") {
  RanksComparedEvent run = with_values(drift_of_one());
  run.cohorts[0].reductions = {{.step = 5, .differing = 1}, {.step = 6, .differing = 1}};
  const std::int64_t skipped = GENERATE(5, 6);
  run.cohorts[0].digests = {
      {.field = DigestField::kSkippedSteps, .step = skipped, .first_step = skipped}};
  CHECK(fact_in(judge_run(run, kId).at(0), "differing_input") ==
        text_of(skipped == 5 ? "skip" : "gradient"));
}

TEST_CASE("rank-parameters-differ begins after averaged gradients that differ", "[check]") {
  RanksComparedEvent run = with_values(drift_of_one());
  const auto found = [&] { return judge_run(run, kId).at(0); };
  auto& steps = run.cohorts[0].reductions;
  steps = {{.step = 3, .differing = 1}, {.step = 5, .differing = 1}, {.step = 6, .differing = 1}};
  CHECK(found().step == 6);
  CHECK(fact_in(found(), "first_bad_step") == FactValue(std::int64_t{6}));
  CHECK(fact_in(found(), "differing_input") == text_of("gradient"));
  SECTION("not where none does between the compared steps") {
    steps = {{.step = 3, .differing = 1}, {.step = 5}, {.step = 8, .differing = 1}};
    CHECK(found().step == 8);
  }
  SECTION("not of frozen parameters") {
    run.cohorts[0].values[0].tensors[0].requires_grad = false;
    CHECK(found().step == 8);
  }
  SECTION("not where nothing is averaged") {
    exchange_nothing(run);
    CHECK(found().step == 8);
    CHECK(fact_in(found(), "differing_input") == text_of("absent"));
  }
}

TEST_CASE("rank-parameters-differ says no numbers that it lacks", "[check]") {
  ValuesDiffer values = drift_of_one();
  values.compared = values.differing = 0;
  values.tensors.clear();
  values.equal_until = -1;
  const Findings findings = judge_run(with_values(values), kId);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "the parameters differ between ranks when step 8 began (drift)");
  CHECK(fact_in(findings[0], "differing_count") == text_of("absent"));
  values.equal_until = 0;
  CHECK(judge_run(with_values(values), kId).at(0).what ==
        "the parameters differ between ranks when step 8 began and were equal before the first "
        "(drift)");
}

TEST_CASE("rank-parameters-differ weighs less where gradients are not averaged", "[check]") {
  RanksComparedEvent local_updates = with_values(drift_of_one());
  exchange_parameters(local_updates);
  CHECK(judge_run(local_updates, kId).at(0).severity == Severity::kNote);
  RanksComparedEvent alone = with_values(drift_of_one());
  exchange_nothing(alone);
  CHECK(judge_run(alone, kId).at(0).severity == Severity::kWarning);
  CHECK(judge_run(alone, kId).at(0).why.find("no exchange") != std::string::npos);
  RanksComparedEvent never_equal = with_values(unequal_start());
  exchange_nothing(never_equal);
  never_equal.cohorts[0].equal_at_start = false;
  CHECK(judge_run(never_equal, kId).at(0).severity == Severity::kNote);
}

TEST_CASE("rank-parameters-differ is placed at the deepest module above what differs", "[check]") {
  ValuesDiffer values = drift_of_one();
  values.tensors.push_back({.model = "Net", .path = "trunk.conv.bias", .requires_grad = true});
  values.differing = 2;
  const Finding finding = judge_run(with_values(values), kId).at(0);
  CHECK(finding.module_path == "trunk.conv");
  CHECK(finding.subject.empty());
}

TEST_CASE("rank-parameters-differ takes frozen parameters for no error", "[check]") {
  ValuesDiffer values = drift_of_one();
  values.tensors[0].requires_grad = false;
  RanksComparedEvent run = with_values(values);
  run.cohorts[0].digests = {{.field = DigestField::kLearningRate, .step = 5, .first_step = 5}};
  const Finding finding = judge_run(run, kId).at(0);
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.what.ends_with("when step 4 began, none of which is trained (drift)"));
  CHECK(fact_in(finding, "differing_input") == text_of("absent"));
  run.cohorts[0].values[0].runs_on_all = true;
  const Finding used = judge_run(run, kId).at(0);
  CHECK(used.severity == Severity::kWarning);
  CHECK(used.why.find("all ranks run them") != std::string::npos);
  CHECK(used.fixes.at(0).text.starts_with("change them on all ranks alike"));
  ValuesDiffer start = unequal_start();
  for (DifferingTensor& tensor : start.tensors) tensor.requires_grad = false;
  CHECK(judge_run(with_values(start), kId).at(0).severity == Severity::kWarning);
  start.tensors[1].requires_grad = true;
  CHECK(judge_run(with_values(start), kId).at(0).severity == Severity::kError);
}

TEST_CASE("rank-parameters-differ stays silent", "[check]") {
  SECTION("on equal bits") { CHECK(judge_run(four_ranks(), kId).empty()); }
  SECTION("on buffers") {
    ValuesDiffer buffers = drift_of_one();
    buffers.of_buffers = true;
    CHECK(judge_run(with_values(buffers), kId).empty());
  }
  SECTION("on a rank alone") {
    RanksComparedEvent run = with_values(drift_of_one());
    run.cohorts[0].ranks = {0};
    CHECK(judge_run(run, kId).empty());
  }
}

}  // namespace ddpscope::test::rank_parameters_differ_test
