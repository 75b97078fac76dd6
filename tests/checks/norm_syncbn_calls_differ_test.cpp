#include "tests/support/catch.h"
#include "tests/support/rank_events.h"

namespace ddpscope::test::norm_syncbn_calls_differ_test {
namespace {
constexpr char kId[] = "norm-syncbn-calls-differ";

CallRecord record_of(NormPhase phase, std::uint64_t number) {
  return {.seq = 481,
          .group = kTestGroup,
          .unix_ns = 50,
          .elements = 64,
          .step = 90,
          .kind = CollectiveKind::kAllReduce,
          .reduce = ReduceKind::kSum,
          .phase = Phase::kForward,
          .norm_call = norm_call(phase, number)};
}

CallSide in_layer(RankList ranks, const std::string& layer, NormPhase phase = NormPhase::kForward) {
  return {compared_call(record_of(phase, 9), {layer, "", "float64"}), std::move(ranks)};
}

CallSide averaging(RankList ranks) {
  CallRecord record = record_of(NormPhase::kNone, 0);
  record.norm_call = 0;
  record.elements = 4096;
  return {compared_call(record, {"head.weight.grad", ""}), std::move(ranks)};
}

CallsDiffer differ(std::vector<CallSide> sides, std::vector<std::string> fields = {"owner"}) {
  return {.group = kTestGroup,
          .seq = 481,
          .step = 90,
          .fields = std::move(fields),
          .sides = std::move(sides),
          .norm_calls = {{"11", {2}}, {"12", {0, 1, 3}}}};
}

RanksComparedEvent run_with(std::vector<CallsDiffer> differences) {
  RanksComparedEvent run = compared_run(4);
  run.calls_differ = std::move(differences);
  return run;
}

Finding only(const RanksComparedEvent& run) {
  const Findings findings = judged(run, kId);
  REQUIRE(findings.size() == 1);
  return findings[0];
}

Frontier waits_in(std::uint64_t group, CallRecord record, RankList waiting, RankList behind) {
  return {.group = group,
          .seq = record.seq,
          .call = compared_call(record, {"stage3.bn1", ""}),
          .waiting = std::move(waiting),
          .behind = std::move(behind),
          .norm_calls = {{"3", {2}}, {"4", {0, 1, 3}}}};
}
}  // namespace

TEST_CASE("norm-syncbn-calls-differ names both layers and the rank that left the order",
          "[check]") {
  const Finding finding =
      only(run_with({differ({in_layer({2}, "stage4.bn1"), in_layer({0, 1, 3}, "stage3.bn1")})}));
  CHECK(finding.what ==
        "call 481 of the group is forward of stage3.bn1, its call 9 on ranks 0-1,3 and forward of "
        "stage4.bn1, its call 9 on rank 2");
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.rank == 2);
  CHECK(finding.ranks == RankList{2});
  CHECK(finding.step == 90);
  CHECK(finding.phase == Phase::kForward);
  CHECK(finding.module_path == "stage3.bn1");
  CHECK(finding.op == "ddpscope::sync_batch_norm");
  CHECK(fact_of(finding, "cause") == FactValue(std::string("calls_differ")));
  CHECK(fact_of(finding, "group") == FactValue(std::string("7777777700000000")));
  CHECK(fact_of(finding, "seq") == FactValue(std::int64_t{481}));
  CHECK(fact_of(finding, "layer") == FactValue(std::string("stage3.bn1")));
  CHECK(fact_of(finding, "call_index") == FactValue(std::int64_t{9}));
  CHECK(fact_of(finding, "minority_ranks") == numbers({2}));
  CHECK(fact_of(finding, "layer_per_side") == words({"2: forward of stage4.bn1, its call 9",
                                                     "0-1,3: forward of stage3.bn1, its call 9"}));
  CHECK(fact_of(finding, "mode_per_rank") == words({"2: forward", "0-1,3: forward"}));
  CHECK(fact_of(finding, "calls_per_rank") == words({"2: 11", "0-1,3: 12"}));
}

TEST_CASE("norm-syncbn-calls-differ tells what a rank issued in place of a layer", "[check]") {
  const Finding skipped =
      only(run_with({differ({averaging({2}), in_layer({0, 1, 3}, "stage3.bn1")}, {"elements"})}));
  CHECK(skipped.what ==
        "call 481 of the group is forward of stage3.bn1, its call 9, with 64 channels on ranks "
        "0-1,3 and all_reduce float32[4096] of head.weight.grad on rank 2");
  // The rank that alone runs a layer.
  const Finding alone =
      only(run_with({differ({in_layer({0}, "stage3.bn1"), averaging({1, 2, 3})}, {"elements"})}));
  CHECK(alone.rank == 0);
  CHECK(alone.module_path == "stage3.bn1");
  CHECK(fact_of(alone, "mode_per_rank") == words({"0: forward", "1-3: another call"}));
}

TEST_CASE("norm-syncbn-calls-differ tells the phases of one layer apart", "[check]") {
  const Finding finding = only(run_with({differ(
      {in_layer({2}, "bn", NormPhase::kBackward), in_layer({0, 1, 3}, "bn")}, {"layer_call"})}));
  CHECK(finding.what ==
        "call 481 of the group is forward of bn, its call 9 on ranks 0-1,3 and backward of bn, its "
        "call 9 on rank 2");
}

TEST_CASE("norm-syncbn-calls-differ tells the lines in which lists of layers differ", "[check]") {
  const Finding finding =
      only(run_with({differ({in_layer({2}, "bn1 channels=8", NormPhase::kLayers),
                             in_layer({0, 1, 3}, "bn1 channels=4", NormPhase::kLayers)})}));
  CHECK(finding.what ==
        "the lists of batch norm layers differ: \"bn1 channels=4\" on ranks 0-1,3 and \"bn1 "
        "channels=8\" on rank 2");
  CHECK(finding.module_path.empty());
  CHECK(fact_of(finding, "cause") == FactValue(std::string("layers_differ")));
  CHECK(fact_of(finding, "minority_ranks") == numbers({2}));
}

TEST_CASE("norm-syncbn-calls-differ tells that some ranks run without the setting", "[check]") {
  const std::string list = "the list of layers";
  RanksComparedEvent run = run_with(
      {differ({averaging({2}), in_layer({0, 1, 3}, list, NormPhase::kLayers)}, {"elements"})});
  run.norm_settings = {.on = {0, 1, 3}, .off = {2}};
  const Finding finding = only(run);
  CHECK(finding.what ==
        "ranks 0-1,3 run with sync_batch_norm, rank 2 without: call 481 of the group is \"the list "
        "of layers\" on ranks 0-1,3 and all_reduce float32[4096] of head.weight.grad on rank 2");
  CHECK(finding.module_path.empty());
  CHECK(finding.fixes[0].text.starts_with("set sync_batch_norm on every rank"));
  CHECK(fact_of(finding, "cause") == FactValue(std::string("settings_differ")));
  CHECK(fact_of(finding, "layer") == FactValue(std::string("absent")));
  SECTION("as where one rank alone has it") {
    run.calls_differ = {
        differ({in_layer({0}, list, NormPhase::kLayers), averaging({1, 2, 3})}, {"elements"})};
    run.norm_settings = {.on = {0}, .off = {1, 2, 3}};
    CHECK(only(run).what.starts_with("rank 0 runs with sync_batch_norm, ranks 1-3 without: "));
  }
  SECTION("as where they went on to another group") {
    const CallRecord layers = record_of(NormPhase::kLayers, 1);
    run.calls_differ.clear();
    run.frontiers = {waits_in(kTestGroup, layers, {0, 1, 3}, {2}),
                     waits_in(kTestGroup + (1ULL << 40), averaging({2}).call.record, {2}, {0})};
    CHECK(fact_of(only(run), "cause") == FactValue(std::string("settings_differ")));
  }
}

TEST_CASE("norm-syncbn-calls-differ blames no setting that the calls do not follow", "[check]") {
  const std::string list = "the list of layers";
  CallSide in_lists = in_layer({0, 1, 3}, list, NormPhase::kLayers);
  RanksComparedEvent run = compared_run(4);
  run.norm_settings = {.on = {0, 1, 3}, .off = {2}};
  SECTION("as where all ranks have it") { run.norm_settings = {.on = {0, 1, 2, 3}, .off = {}}; }
  SECTION("as where nothing is known of it") { run.norm_settings = {}; }
  SECTION("as where a rank without it compares lists, too") { in_lists.ranks = {0, 1, 2}; }
  SECTION("as in a layer of the program's own") { in_lists = in_layer({0, 1, 3}, "stage3.bn1"); }
  const RankList other = in_lists.ranks.back() == 2 ? RankList{3} : RankList{2};
  run.calls_differ = {differ({averaging(other), in_lists}, {"elements"})};
  CHECK(fact_of(only(run), "cause") == FactValue(std::string("calls_differ")));
}

TEST_CASE("norm-syncbn-calls-differ tells ranks that went on to another group", "[check]") {
  RanksComparedEvent run = compared_run(4);
  const CallRecord layer = record_of(NormPhase::kForward, 9);
  CallRecord average = record_of(NormPhase::kNone, 0);
  average.norm_call = 0;
  run.frontiers = {waits_in(kTestGroup, layer, {0, 1, 3}, {2})};
  CHECK(judged(run, kId).empty());  // where it is is not known: collective-hang tells of it
  run.frontiers.push_back(waits_in(kTestGroup + (1ULL << 40), average, {2}, {0, 1, 3}));
  const Finding finding = only(run);
  CHECK(finding.rank == 2);
  CHECK(finding.what ==
        "ranks 0-1,3 waited in forward of stage3.bn1, its call 9, which rank 2 did not reach "
        "before a call of another group");
  CHECK(fact_of(finding, "calls_per_rank") == words({"2: 3", "0-1,3: 4"}));
  run.frontiers[0].call.record.norm_call = 0;
  CHECK(judged(run, kId).empty());
}

TEST_CASE("norm-syncbn-calls-differ and collective-mismatch do not tell the same", "[check]") {
  const RanksComparedEvent of_norm =
      run_with({differ({in_layer({2}, "a"), in_layer({0, 1, 3}, "b")})});
  CHECK(judged(of_norm, "collective-mismatch").empty());
  // An earlier difference of another group explains the later one.
  RanksComparedEvent both = of_norm;
  CallsDiffer first = differ({averaging({2}), averaging({0, 1, 3})}, {"elements"});
  first.step = 80;
  both.calls_differ.push_back(first);
  CHECK(judged(both, kId).empty());
  CHECK(judged(both, "collective-mismatch").size() == 1);
}

TEST_CASE("norm-syncbn-calls-differ stays silent where nothing differs", "[check]") {
  CHECK(judged(compared_run(4), kId).empty());
}

}  // namespace ddpscope::test::norm_syncbn_calls_differ_test
