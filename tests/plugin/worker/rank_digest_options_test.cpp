#include <cmath>
#include <functional>

#include "exchange/reduction_record.h"
#include "tests/plugin/worker/one_rank.h"
#include "tests/support/catch.h"

namespace ddpscope::test::rank_digest_options_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
}  // namespace

TEST_CASE("Another rate, decay, momentum, group or type is another optimizer", "[rank_digest]") {
  const StepDigest same = second_step([](Rank&) {});
  CHECK(same.optimizers != 0);
  CHECK(same.learning_rate == 0.1);
  CHECK(same.weight_decay == 1e-4);
  CHECK(same.momentum == 0.9);
  CHECK(same.groups == 1);
  CHECK(same.members == 3);
  const StepDigest other_rate = second_step([](Rank& rank) { rank.rate(0.2); });
  CHECK(other_rate.learning_rate == 0.2);
  CHECK(other_rate.optimizers != same.optimizers);
  const auto groups = second_step([](Rank& rank) { rank.members({{kWeight, kBias}, {kHead}}); });
  CHECK(groups.groups == 2);
  CHECK(groups.optimizers != same.optimizers);
  const auto with = [](const std::function<void(OptimizerMembersEvent&)>& change) {
    return second_step([&](Rank& rank) {
      OptimizerMembersEvent event{.at = rank.now(), .optimizer = kSgd, .type = "torch::optim::SGD"};
      event.groups = {{{.tensor = kWeight}, {.tensor = kBias}, {.tensor = kHead}}};
      event.options = {{.weight_decay = 1e-4, .momentum = 0.9, .learning_rate = 0.1}};
      change(event);
      rank.send_large(std::move(event));
    });
  };
  CHECK(with([](auto&) {}).optimizers == same.optimizers);
  CHECK(with([](auto& e) { e.options[0].weight_decay = 0; }).optimizers != same.optimizers);
  CHECK(with([](auto& e) { e.options[0].momentum = 0.8; }).optimizers != same.optimizers);
  CHECK(with([](auto& e) { e.type = "torch::optim::Adam"; }).optimizers != same.optimizers);
}

TEST_CASE("A rank that steps a part of its parameters says nothing of the number of members",
          "[rank_digest]") {
  CHECK(second_step([](Rank& rank) { rank.members({{kWeight}}); }).members == 0);
  const auto declared = second_step([](Rank& rank) {
    rank.send_large(DeclarationEvent{.model = kNet, .path_glob = "trunk*", .kind = "sharded"});
    rank.members({{kWeight, kHead}});
  });
  CHECK(declared.members == 1);
}

TEST_CASE("An optimizer that never steps owns no parameter", "[rank_digest]") {
  const auto digest = second_step([](Rank& rank) {
    OptimizerMembersEvent all{.at = rank.now(), .optimizer = kSgd + 1, .type = "torch::optim::SGD"};
    all.groups = {{{.tensor = kWeight}, {.tensor = kBias}, {.tensor = kHead}}};
    rank.send_large(std::move(all));
    rank.members({{kWeight}});
  });
  CHECK(digest.members == 0);
}

TEST_CASE("Fingerprints are told before the first step, and of what was read in a step",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.bits(0, {{kMean, 5}});
  rank.settle();
  rank.bits(0, {{kWeight, 1}, {kBias, 2}, {kHead, 3}});
  rank.backward({kWeight});
  REQUIRE(rank.digests.size() == 2);
  CHECK(rank.digests[0].parameters == 0);
  CHECK(rank.digests[0].buffers != 0);
  CHECK(rank.digests[1].step == 0);
  CHECK(rank.digests[1].parameters != 0);
  CHECK(rank.digests[1].buffers == rank.digests[0].buffers);
  const std::string bytes = rank.of(BlobKind::kFingerprints).back().bytes;
  REQUIRE(bytes.size() == 32);
  CHECK(bytes[0] == 1);
  CHECK(bytes[16] == 3);
  CHECK(bytes[24] == 5);

  rank.bits(1, {{kWeight, 1}, {kBias, 2}, {kHead, 4}});
  rank.end_step();
  CHECK(rank.digests.back().parameters != rank.digests[1].parameters);
  CHECK(rank.digests.back().buffers == 0);  // not read
  rank.step();
  CHECK(rank.digests.back().parameters == 0);
}

TEST_CASE("What is declared to be of this rank alone is not compared by value or gradient",
          "[rank_digest]") {
  const std::string kind = GENERATE("rank_local", "sharded", "external", "intended");
  const auto told = [&](std::uint64_t bits_of_trunk, const std::vector<TensorId>& leaves) {
    Rank rank;
    rank.send_large(net());
    rank.send_large(DeclarationEvent{.model = kNet, .path_glob = "trunk*", .kind = kind});
    rank.bits(1, {{kWeight, bits_of_trunk}, {kBias, bits_of_trunk}, {kHead, 3}});
    rank.step(leaves);
    return rank.digests.back();
  };
  const StepDigest one = told(1, {kWeight, kHead});
  const StepDigest other = told(2, {kHead});
  CHECK(one.parameters == other.parameters);
  CHECK(one.gradients == other.gradients);
  CHECK(one.gradients != told(1, {kWeight}).gradients);
}

namespace {
/// A step with this loss behind its backward, and what was told of it.
struct LossStep {
  std::int64_t losses = 1;
  std::int64_t targets = 97;
  bool is_root = true;
  std::optional<CollectiveEvent> before = {};
  bool whole = true;

  void run(Rank& rank) const {
    if (before) rank.send_large(CollectiveEvent(*before));
    rank.send_large(LossTargetsEvent{.at = rank.now(),
                                     .op = "aten::nll_loss_nd",
                                     .classes = 5,
                                     .losses = losses,
                                     .targets = targets,
                                     .is_root = is_root});
    rank.backward({kWeight});
    rank.end_step(whole);
  }
  float told() const {
    Rank rank;
    rank.send_large(net());
    run(rank);
    return rank.digests.back().targets;
  }
};

CollectiveEvent sum_of(std::int64_t elements) {
  return {.reduce = ReduceKind::kSum, .elements_max = elements};
}
}  // namespace

TEST_CASE("A digest tells the valid targets of one loss of its step", "[rank_digest]") {
  CHECK(LossStep{}.told() == 97);
  CHECK(LossStep{.losses = 4, .targets = 90}.told() == 22.5F);
  CHECK(LossStep{.whole = false}.told() == 0);
  Rank rank;
  rank.send_large(net());
  LossStep{}.run(rank);
  LossStep{}.run(rank);
  REQUIRE(rank.of(BlobKind::kLoss).size() == 1);
  CHECK(rank.of(BlobKind::kLoss)[0].bytes == "aten::nll_loss_nd 5 ");
  rank.step();
  CHECK(rank.digests.back().targets == 0);
}

TEST_CASE("A loss that may be weighed by what ranks exchanged tells no targets", "[rank_digest]") {
  CHECK(LossStep{.is_root = false, .before = sum_of(1)}.told() == 0);
  CHECK(LossStep{.is_root = false,
                 .before = CollectiveEvent{.kind = CollectiveKind::kAllGather, .elements_max = 1}}
            .told() == 0);
  CHECK(LossStep{.is_root = true, .before = sum_of(1)}.told() == 97);
  CHECK(LossStep{.is_root = false}.told() == 97);
  CHECK(LossStep{.is_root = false, .before = sum_of(64)}.told() == 97);
  CHECK(LossStep{.is_root = false,
                 .before = CollectiveEvent{.kind = CollectiveKind::kBroadcast, .elements_max = 1}}
            .told() == 97);
}

TEST_CASE("A factor of what ranks exchanged is no loss scale", "[rank_digest]") {
  const bool is_exchanged = GENERATE(true, false);
  Rank rank;
  rank.send_large(net());
  if (is_exchanged) rank.send_large(sum_of(1));
  rank.send_large(OpEvent{
      .at = rank.now(), .op = "aten::mul", .outputs = {TensorInfo{.id = 70}}, .factor = 0.5});
  rank.send_large(LossTargetsEvent{.at = rank.now(), .losses = 1, .targets = 97});
  rank.send_large(BackwardEvent{.at = rank.now(), .surveyed = true, .roots = {70}});
  rank.send(BackwardEndEvent{.at = rank.now()});
  rank.end_step();
  CHECK(rank.digests.back().loss_scale == (is_exchanged ? 0 : 0.5));
}

TEST_CASE("The rows of a batch are no loss scale", "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.send_large(BatchEvent{.at = rank.now(), .fingerprint = 9, .shape = {24, 10}});
  const double factor = GENERATE(24, 32);
  rank.send_large(OpEvent{
      .at = rank.now(), .op = "aten::mul", .outputs = {TensorInfo{.id = 70}}, .factor = factor});
  rank.send_large(BackwardEvent{.at = rank.now(), .surveyed = true, .roots = {70}});
  rank.send(BackwardEndEvent{.at = rank.now()});
  rank.end_step();
  CHECK(rank.digests.back().loss_scale == (factor == 24 ? 0 : factor));
}

TEST_CASE("Of a loss divided by what ranks exchanged the sum of gradients has no weight",
          "[rank_digest]") {
  const auto [op, elements, factor, is_weighed] =
      GENERATE(table<const char*, std::int64_t, double, bool>({{"aten::div", 1, 1, true},
                                                               {"aten::div_", 1, 0.125, true},
                                                               {"aten::mul", 1, 0.125, true},
                                                               {"aten::div", 64, 1, false},
                                                               {"aten::sum", 1, 1, false}}));
  Rank rank;
  rank.send_large(net());
  rank.send_large(sum_of(elements));
  rank.send_large(
      OpEvent{.at = rank.now(), .op = op, .outputs = {TensorInfo{.id = 70}}, .factor = factor});
  rank.send_large(BackwardEvent{.at = rank.now(), .surveyed = true, .roots = {70}});
  rank.send(BackwardEndEvent{.at = rank.now()});
  rank.send_large(ReducedGradientsEvent{.at = rank.now(), .gradients = {{.tensor = kWeight}}});
  rank.end_step();
  REQUIRE(rank.of(BlobKind::kReductions).size() == 1);
  const auto told = decode_reductions(rank.of(BlobKind::kReductions)[0].bytes);
  CHECK(std::isnan(told.value().weight) == is_weighed);
}

TEST_CASE("Of a loss divided by the rows of its rank the sum of gradients has its own weight",
          "[rank_digest]") {
  const auto [rows, is_own] = GENERATE(table<std::int64_t, bool>({{24, true}, {48, false}}));
  Rank rank;
  rank.send_large(net());
  rank.send_large(BatchEvent{.at = rank.now(), .fingerprint = 9, .shape = {rows, 10}});
  rank.send_large(sum_of(1));
  rank.send_large(OpEvent{
      .at = rank.now(), .op = "aten::div", .outputs = {TensorInfo{.id = 70}}, .factor = 1.0 / 24});
  rank.send_large(BackwardEvent{.at = rank.now(), .surveyed = true, .roots = {70}});
  rank.send(BackwardEndEvent{.at = rank.now()});
  rank.send_large(ReducedGradientsEvent{.at = rank.now(), .gradients = {{.tensor = kWeight}}});
  rank.end_step();
  const auto told = decode_reductions(rank.of(BlobKind::kReductions).at(0).bytes);
  CHECK(std::isinf(told.value().weight) == is_own);
  CHECK(std::isnan(told.value().weight) == !is_own);
}

TEST_CASE("Factors of gradients but a clip weigh them", "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.send_large(GradientsScaledEvent{.at = rank.now(), .factor = 0.5, .gradients = 3});
  rank.send_large(GradientsScaledEvent{.at = rank.now(), .factor = 3, .gradients = 3});
  rank.send_large(GradientsScaledEvent{
      .at = rank.now(), .factor = 0.1, .gradients = 3, .quotient = ClipQuotient{1, 10}});
  rank.send_large(ReducedGradientsEvent{.at = rank.now(), .gradients = {{.tensor = kWeight}}});
  rank.end_step();
  const auto told = decode_reductions(rank.of(BlobKind::kReductions).at(0).bytes);
  CHECK(told.value().weight == 1.5);
  CHECK(told.value().clip_factor == 0.1);
}

TEST_CASE("Of gradients that are weighed one by one the first one's factors are told",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  const bool watched = GENERATE(true, false);
  for (const TensorId leaf : {kWeight, kBias, kWeight}) {
    rank.send_large(GradientsScaledEvent{
        .at = rank.now(), .factor = leaf == kBias ? 3 : 0.5, .gradients = 1, .first = leaf});
  }
  rank.send_large(ReducedGradientsEvent{
      .at = rank.now(), .watched = watched, .gradients = {{.tensor = kWeight}}});
  rank.end_step();
  const auto told = decode_reductions(rank.of(BlobKind::kReductions).at(0).bytes);
  CHECK(told.value().weight == (watched ? 0.25 : kUnknownWeight));
}

}  // namespace ddpscope::test::rank_digest_options_test
