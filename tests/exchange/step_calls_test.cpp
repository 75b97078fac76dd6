// What the calls of a step say of its gradients.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::step_calls_test {

TEST_CASE("calls count of a step in which ranks stood still before them", "[compare]") {
  TwoRanks ranks;
  ranks.digest(1, 0);
  ranks.step(2, kOne, kOther);
  ranks.stand_still(2);
  ranks.digest(2, 0);
  const auto steps = ranks.reductions();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].calls == 1);
  CHECK(steps[0].silent.empty());
  CHECK(steps[0].backwards == 1);
}

TEST_CASE("what a program makes of gradients that it keeps beside them is not known", "[compare]") {
  const bool is_cleared = GENERATE(true, false);
  const std::string owner = GENERATE("bucket", "", "fc2.weight.grad");
  constexpr Values kNoisy = {0.5, 3, -1, 2};  // no multiple of any sum
  TwoRanks ranks;
  ranks.call({.owner = owner, .elements = 16});
  for (const std::size_t rank : {0, 1}) {
    TwoRanks::Told told{.before = rank == 0 ? kOne : kOther, .after = kNoisy};
    if (is_cleared) told.total = scaled(told.before, 3);
    ranks.put(rank, 1, told);
  }
  const auto steps = ranks.compared();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].differing == 0);
  const bool is_told = !is_cleared || owner == "fc2.weight.grad";
  CHECK(steps[0].not_linear == is_told);
  CHECK((steps[0].noise > 0) == is_told);
  CHECK(steps[0].combined == is_told);
}

TEST_CASE("ranks that give each other activations are told from others", "[compare]") {
  using enum CollectiveKind;
  TensorList list = test_list();
  list.tensors[0].shape = {32, 4};  // of 152 elements in all
  TwoRanks ranks(list);
  bool are_activations = false;
  const auto call = [&ranks](CollectiveKind kind, Phase phase, std::uint64_t elements = 96) {
    ranks.call({.elements = elements, .kind = kind, .reduce = ReduceKind::kNone, .phase = phase});
  };
  SECTION("by gathering") {
    call(kAllGather, Phase::kForward);
    are_activations = true;
  }
  SECTION("by messages both ways") {
    call(kReceive, Phase::kForward);
    call(kSend, Phase::kReduce);
    are_activations = true;
  }
  SECTION("not by batches that one rank sends") { call(kSend, Phase::kForward); }
  SECTION("nor by gradients that they send round") {
    call(kSend, Phase::kReduce);
    call(kReceive, Phase::kReduce);
  }
  SECTION("nor by a few numbers") { call(kAllGather, Phase::kForward, 10); }
  SECTION("nor by all weights") { call(kAllGather, Phase::kForward, 76); }
  SECTION("nor by classes") {
    ranks.call({.elements = 96,
                .kind = kAllGather,
                .reduce = ReduceKind::kNone,
                .dtype = "int64",
                .phase = Phase::kForward});
  }
  SECTION("nor by what a name is known of") {
    ranks.call(
        {.owner = "fc1.weight", .elements = 96, .kind = kAllGather, .phase = Phase::kForward});
  }
  ranks.step(1, kSum, kSum);
  const ReductionStep step = ranks.compared().at(0);
  CHECK(step.brings_activations == are_activations);
  CHECK(step.shares_activations == are_activations);
}

TEST_CASE("activations for ranks that average apart are not those that ranks share", "[compare]") {
  using enum CollectiveKind;
  TwoRanks ranks;
  const auto exchange = [&ranks](std::int32_t peer) {
    for (const CollectiveKind kind : {kSend, kReceive}) {
      ranks.call({.elements = 96,
                  .kind = kind,
                  .reduce = ReduceKind::kNone,
                  .root = peer,
                  .phase = Phase::kForward});
    }
  };
  bool are_shared = false;
  SECTION("of a group that others of them are in") {
    ranks.enter(/*of_both=*/true);
    exchange(/*peer=*/1);
    are_shared = true;
  }
  SECTION("of a group of their own") {
    ranks.enter(/*of_both=*/false);
    exchange(/*peer=*/1);
  }
  SECTION("of the group of all, with another rank") { exchange(/*peer=*/3); }
  ranks.step(1, kSum, kSum);
  const ReductionStep step = ranks.compared().at(0);
  CHECK(step.brings_activations);
  CHECK(step.shares_activations == are_shared);
}

TEST_CASE("steps that send activations to their experts and back are known", "[compare]") {
  const Phase back = GENERATE(Phase::kBackward, Phase::kForward);
  TwoRanks ranks;
  const TestCall sent = {
      .elements = 6, .kind = CollectiveKind::kAllToAll, .reduce = ReduceKind::kNone};
  for (const Phase phase : {Phase::kForward, back}) {
    TestCall call = sent;
    call.phase = phase;
    ranks.call(call);
  }
  ranks.step(1, kOne, kOther);
  const auto steps = ranks.reductions();
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].routes_activations == (back == Phase::kBackward));
}

TEST_CASE("calls of parameters themselves are told from those of gradients", "[compare]") {
  const std::string owner = GENERATE("fc1.weight", "fc1.weight.grad", "bucket", "");
  TwoRanks ranks;
  ranks.call({.owner = owner, .elements = 16});
  ranks.step(1, kOne, kOther);
  CHECK(ranks.compared().at(0).of_parameters == (owner == "fc1.weight"));
}

TEST_CASE("a result that stays on one rank is known beside the broadcasts of the start",
          "[compare]") {
  using enum CollectiveKind;
  const Phase phase = GENERATE(Phase::kInit, Phase::kReduce);
  TwoRanks ranks;
  ranks.call({.elements = 16, .kind = kBroadcast, .reduce = ReduceKind::kNone, .phase = phase});
  ranks.call({.elements = 16, .kind = kReduce, .phase = Phase::kReduce});
  ranks.step(1, kOne, kOther);
  CHECK(ranks.compared().at(0).to_one_rank == (phase == Phase::kInit));
}

TEST_CASE("averages of weights that leave some of them out are known", "[compare]") {
  // Whether these are equal in steps 4 and 8, in which fc1.weight differs as a rule.
  struct Case {
    std::vector<bool> bias, weight2;
    std::size_t partly;
    std::vector<std::string> never;
  };
  const Case one = GENERATE(Case{{true, true}, {true, true}, 2, {"fc1.weight"}},
                            Case{{true, true}, {false, false}, 2, {}},  // few of them: by chance
                            Case{{true, true}, {true, false}, 2, {}},   // equal once: takes turns
                            Case{{true, false}, {false, true}, 2, {}},  // likewise
                            Case{{true, false}, {false, false}, 1, {}},
                            Case{{false, false}, {false, false}, 0, {}});
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run[rank].list(test_list());
    put_words(run[rank], 0, {1, 2, 3, 4});
    put_words(run[rank], 2, {5 + rank, 7 + rank, 9 + rank, 4});
    for (const std::size_t i : {0, 1}) {
      const std::size_t base = 20 + 10 * i;
      put_words(
          run[rank], i == 0 ? 4 : 8,
          {base + rank, base + (one.bias[i] ? 0 : rank), base + (one.weight2[i] ? 0 : rank), 4});
    }
    run[rank].digest({.step = 8, .structure = 7, .parameters = 5 + rank});
  }
  const Cohort cohort = run.compared().cohorts.at(0);
  CHECK(cohort.partly_equal_steps.size() == one.partly);
  REQUIRE(cohort.never_averaged.has_value() == !one.never.empty());
  if (one.never.empty()) return;
  CHECK(cohort.never_averaged->step == 4);
  CHECK(cohort.never_averaged->compared == 3);
  std::vector<std::string> paths;
  for (const DifferingTensor& tensor : cohort.never_averaged->tensors) paths.push_back(tensor.path);
  CHECK(paths == one.never);
  CHECK(cohort.never_averaged->differing == std::ssize(one.never));
  CHECK(cohort.never_averaged->module_path == "fc1");
}

TEST_CASE("averages of weights that differ by rounding leave nothing out", "[compare]") {
  const double apart = GENERATE(1e-7, 1e-3);
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const double value = 1 + (rank == 0 ? 0 : apart);
    const GradientSketch sketch = {.squares = value * value, .sums = {value, value, value, value}};
    run[rank].list(test_list());
    put_words(run[rank], 0, {1, 2, 3, 4});
    put_words(run[rank], 2, {5 + rank, 7 + rank, 9 + rank, 4});
    for (const std::int64_t step : {4, 8}) {
      put_words(run[rank], step, {20 + rank, 30, 40, 4});
      run[rank].writer.put(
          Blob{BlobKind::kSketches, 0, step, encode(std::vector<GradientSketch>(3, sketch))});
    }
    run[rank].digest({.step = 8, .structure = 7, .parameters = 5 + rank});
  }
  CHECK(run.compared().cohorts.at(0).never_averaged.has_value() == (apart > 1e-5));
}

}  // namespace ddpscope::test::step_calls_test
