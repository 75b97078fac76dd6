#include <cmath>
#include <functional>

#include "exchange/missing_on_ranks.h"
#include "exchange/reduction_record.h"
#include "tests/plugin/worker/one_rank.h"
#include "tests/support/catch.h"

namespace ddpscope::test::rank_digest_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
}  // namespace

TEST_CASE("A rank tells what it registers before the first step, in registered order",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.settle();
  REQUIRE(rank.digests.size() == 1);
  CHECK(rank.digests[0].step == 0);
  CHECK(rank.digests[0].phase == Phase::kInit);
  CHECK(rank.digests[0].structure != 0);
  REQUIRE(rank.of(BlobKind::kTensors).size() == 1);
  const KeptBlob blob = rank.of(BlobKind::kTensors)[0];
  CHECK(blob.number == kNet);
  const auto list = decode_tensor_list(blob.bytes);
  REQUIRE(list.has_value());
  CHECK(list->model == "Net");
  REQUIRE(list->tensors.size() == 4);
  CHECK(list->tensors[1].path == "trunk.bias");
  CHECK(list->tensors[2].is_buffer);
  CHECK(list->tensors[3].path == "head");
  rank.settle();
  CHECK(rank.digests.size() == 1);
}

TEST_CASE("Ranks with other lists of tensors have another structure", "[rank_digest]") {
  const StepDigest same = second_step([](Rank&) {});
  CHECK(second_step([](Rank&) {}).structure == same.structure);
  TreeEvent frozen = net();
  frozen.tensors[0].tensor.requires_grad = false;
  CHECK(second_step([](Rank&) {}, frozen).structure != same.structure);
  TreeEvent other_order = net();
  std::swap(other_order.tensors[0], other_order.tensors[1]);
  CHECK(second_step([](Rank&) {}, other_order).structure != same.structure);
  TreeEvent other_ids = net();
  for (RegisteredTensor& tensor : other_ids.tensors) tensor.tensor.id += 100;
  CHECK(second_step([](Rank&) {}, other_ids).structure == same.structure);
}

TEST_CASE("A list is written again where it changed, and not where a module changed its mode",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.step();
  TreeEvent in_eval = net();
  in_eval.modules = {{.id = 5, .path = "", .type = "NetImpl", .training = false}};
  rank.send_large(std::move(in_eval));
  CHECK(rank.of(BlobKind::kTensors).size() == 1);
  TreeEvent frozen = net();
  frozen.tensors[3].tensor.requires_grad = false;
  rank.send_large(std::move(frozen));
  REQUIRE(rank.of(BlobKind::kTensors).size() == 2);
  CHECK(rank.of(BlobKind::kTensors)[1].step == 2);
}

TEST_CASE("A model that got a parent before the first step is not compared", "[rank_digest]") {
  Rank rank;
  TreeEvent part = net();
  part.model = 9;
  rank.send_large(std::move(part));
  rank.send(TreeEndEvent{.at = rank.now(), .model = 9});
  rank.send_large(net());
  rank.settle();
  const auto lists = rank.of(BlobKind::kTensors);
  REQUIRE(lists.size() == 3);
  CHECK(lists[1].number == 9);
  CHECK(decode_tensor_list(lists[1].bytes).value().tensors.empty());
  Rank other;
  other.send_large(net());
  other.settle();
  CHECK(rank.digests.back().structure == other.digests.back().structure);
}

TEST_CASE("A digest tells which parameters received a gradient", "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.step({kWeight, kHead});
  rank.step({kHead, kWeight});
  rank.step({kWeight});
  REQUIRE(rank.digests.size() == 4);
  CHECK(rank.digests[1].received == 2);
  CHECK(rank.digests[1].gradients != 0);
  CHECK(rank.digests[2].gradients == rank.digests[1].gradients);
  CHECK(rank.digests[3].gradients != rank.digests[1].gradients);
  const auto bits = rank.of(BlobKind::kGradients);
  REQUIRE(bits.size() == 3);  // steps 1 and 2 are compared, step 3 differs
  CHECK(bits[0].bytes == std::string(1, '\x05'));
  CHECK(bits[2].bytes == std::string(1, '\x01'));
  CHECK(bits[2].step == 3);
}

TEST_CASE("A digest tells why parameters received no gradient, where operators were recorded",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.step({kWeight, kBias});
  CHECK(rank.of(BlobKind::kMissing).empty());
  rank.send_large(OpEvent{.at = rank.now(), .op = "aten::linear", .inputs = {}});
  rank.step({kWeight, kBias});
  const auto told = rank.of(BlobKind::kMissing);
  REQUIRE(told.size() == 1);
  CHECK(told[0].step == 2);
  CHECK(told[0].bytes == encode_missing({"", "", "not_used"}));
}

TEST_CASE("Gradients of two backwards of a step are one set, undefined ones are none",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.backward({kWeight});
  rank.send(GradientEvent{.at = rank.now(), .tensor = kBias, .defined = false});
  rank.step({kHead});
  CHECK(rank.of(BlobKind::kGradients).at(0).bytes == std::string(1, '\x05'));
  CHECK(rank.digests.back().backwards == 2);
}

TEST_CASE("A rank that stands still after a backward tells what that step has so far",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.step();
  rank.settle();
  CHECK(rank.digests.back().step == 1);
  rank.backward({kWeight});
  rank.settle();
  rank.settle();
  REQUIRE(rank.digests.size() == 3);
  const StepDigest& waits = rank.digests.back();
  CHECK(waits.step == 2);
  CHECK(waits.phase == Phase::kReduce);
  CHECK(waits.received == 1);
  CHECK(waits.backwards == 2);
  CHECK(waits.optimizer_steps == 1);
  CHECK(rank.of(BlobKind::kGradients).back().step == 2);
  rank.end_step();
  CHECK(rank.digests.back().step == 2);
  CHECK(rank.digests.back().phase == Phase::kOptimizer);
}

TEST_CASE("At exit the step in progress is told", "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.backward({kWeight});
  rank.send(ExitEvent{});
  CHECK(rank.digests.back().phase == Phase::kReduce);
}

TEST_CASE("Sketches are told beside fingerprints, where there are any", "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.bits(0, {{.tensor = kBias, .fingerprint = 5, .sketch = {.squares = 4, .sums = {2, 2, 2, 2}}},
                {.tensor = kWeight, .fingerprint = 6}});
  rank.settle();
  const auto sketches = rank.of(BlobKind::kSketches);
  REQUIRE(sketches.size() == 1);
  CHECK(sketches[0].step == 0);
  CHECK(std::isnan(decode_sketch(sketches[0].bytes, 0).squares));
  CHECK(decode_sketch(sketches[0].bytes, 1).squares == 4);
  CHECK(decode_sketch(sketches[0].bytes, 1).sums[3] == 2);
  CHECK(std::isnan(decode_sketch(sketches[0].bytes, 4).squares));
  rank.bits(1, {{.tensor = kWeight, .fingerprint = 6}});
  rank.step();
  CHECK(rank.of(BlobKind::kSketches).size() == 1);
}

TEST_CASE("A step in which hooks rested, or events were lost, claims nothing that was not seen",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.members({{kWeight, kBias, kHead}});
  rank.step();
  const bool lost = GENERATE(true, false);
  if (lost) {
    rank.backward({kWeight});
    rank.send(DroppedEvent{3});
    rank.end_step();
  } else {
    rank.end_step(/*whole=*/false);
  }
  const StepDigest& digest = rank.digests.back();
  CHECK(digest.step == 2);
  CHECK(digest.structure == 0);
  CHECK(digest.gradients == 0);
  CHECK(digest.optimizers == (lost ? 0 : rank.digests[1].optimizers));
  CHECK(digest.members == 0);
  CHECK(digest.optimizer_steps == 2);
  rank.step();
  CHECK(rank.digests.back().structure != 0);
}

TEST_CASE("A process group that was declared makes the run an averaging one", "[rank_digest]") {
  CHECK_FALSE(second_step([](Rank&) {}).averages);
  CHECK(second_step([](Rank& rank) {
          rank.send_large(DeclarationEvent{.model = kNet, .path_glob = "*", .kind = "averaged"});
        }).averages);
}

TEST_CASE("A Reducer over several ranks averages", "[rank_digest]") {
  for (const std::int64_t ranks : {1, 2}) {
    const auto digest =
        second_step([ranks](Rank& rank) { rank.send_large(ReducerEvent{.ranks = ranks}); });
    CHECK(digest.averages == (ranks > 1));
  }
}

TEST_CASE("A collective over gradients averages, and those before training are not counted",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.send_large(CollectiveEvent{.at = rank.now(), .tensors = {kWeight}});
  rank.step();
  CHECK_FALSE(rank.digests.back().averages);
  CHECK(rank.digests.back().call_count == 0);
  rank.backward({kWeight});
  rank.send_large(CollectiveEvent{.at = rank.now(), .averages = true});
  rank.end_step();
  CHECK(rank.digests.back().averages);
  CHECK(rank.digests.back().call_count == 1);
}

TEST_CASE("Backwards without a step are counted as skipped ones once their number is known",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  const auto step_after = [&rank](int backwards) {
    for (int i = 0; i < backwards; ++i) rank.backward({kWeight});
    rank.end_step();
    return rank.digests.back().skipped_steps;
  };
  CHECK(step_after(2) == 0);
  CHECK(step_after(2) == 0);
  CHECK(step_after(2) == 0);
  CHECK(step_after(4) == 1);
  CHECK(step_after(2) == 1);
  CHECK(step_after(0) == 1);  // a rank that has no batch left, and steps with the others
  CHECK(step_after(3) == 1);
}

TEST_CASE("A report shows the first digests, each sixteenth, and what changed", "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.members({{kWeight, kBias, kHead}});
  for (int i = 0; i < 20; ++i) {
    rank.rate(0.1 / (i + 1));
    if (i == 10) rank.members({{kWeight, kBias}, {kHead}});
    rank.step();
  }
  CHECK(rank.shown == std::vector<std::int64_t>{0, 1, 2, 4, 8, 11, 16});
}

TEST_CASE("A model that no gradient reaches is told where it ran before the backward",
          "[rank_digest]") {
  constexpr ModelId kTarget = 2;
  constexpr TensorId kFixed = 21;
  constexpr ModuleId kRoot = 30;
  constexpr ModuleId kTargetRoot = 31;
  Rank rank;
  TreeEvent trained = net();
  trained.modules = {{.id = kRoot}};
  rank.send_large(std::move(trained));
  TreeEvent target{.model = kTarget, .label = "Net#2", .modules = {{.id = kTargetRoot}}};
  target.tensors = {registered(kFixed, "", "weight")};
  rank.send_large(std::move(target));
  rank.members({{kWeight, kBias, kHead}});
  rank.step();
  const auto step_after = [&rank](std::int64_t step, const std::vector<ModuleId>& ran) {
    rank.send_large(TensorBitsEvent{
        .step = step,
        .tensors = {{.tensor = kWeight, .fingerprint = 5}, {.tensor = kFixed, .fingerprint = 6}},
        .ran = ran});
    rank.step();
  };
  step_after(2, {kRoot, kTargetRoot});
  step_after(3, {kRoot});
  const std::vector<KeptBlob> told = rank.of(BlobKind::kRan);
  REQUIRE(told.size() == 1);
  CHECK(told[0].number == kTarget);
  CHECK(told[0].step == 2);
}

}  // namespace ddpscope::test::rank_digest_test
