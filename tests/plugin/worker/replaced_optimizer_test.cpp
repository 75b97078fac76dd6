// Which optimizers a rank tells of once its program has built another one.
#include "tests/plugin/worker/one_rank.h"
#include "tests/support/catch.h"

namespace ddpscope::test::replaced_optimizer_test {
namespace {
constexpr OptimizerId kLater = kSgd + 1;

/// Built now, with another rate than the first one.
void build(Rank& rank, const std::vector<TensorId>& ids, double rate = 0.01) {
  rank.send(OptimizerCreatedEvent{.at = rank.now(), .optimizer = kLater});
  OptimizerMembersEvent event{.at = rank.now(), .optimizer = kLater, .type = "torch::optim::SGD"};
  auto& members = event.groups.emplace_back();
  for (const TensorId id : ids) members.push_back({.tensor = id, .requires_grad = true});
  event.options = {{.weight_decay = 1e-4, .momentum = 0.9, .learning_rate = rate}};
  rank.send_large(std::move(event));
}

void step_later(Rank& rank, const std::vector<TensorId>& leaves) {
  rank.backward(leaves);
  rank.end_step(/*whole=*/true, kLater);
}
}  // namespace

TEST_CASE("An optimizer that is built anew counts in place of the old one", "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.members({{kWeight, kBias, kHead}});
  rank.step();
  const std::uint64_t before = rank.digests.back().optimizers;
  build(rank, {kWeight, kBias, kHead}, 0.1);
  step_later(rank, {kWeight, kBias, kHead});
  CHECK(rank.digests.back().members == 3);
  CHECK(rank.digests.back().groups == 1);
  CHECK(rank.digests.back().optimizers == before);
}

TEST_CASE("One built anew for a part of the members counts in place of the old one",
          "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.members({{kWeight, kBias, kHead}});
  rank.step();
  build(rank, {kHead});
  step_later(rank, {kHead});
  CHECK(rank.digests.back().members == 1);
  CHECK(rank.digests.back().groups == 1);
  CHECK(rank.digests.back().learning_rate == 0.01);
  step_later(rank, {kWeight, kHead});  // a part of what is trained, as where each rank has its own
  CHECK(rank.digests.back().members == 0);
}

TEST_CASE("Optimizers count together that share no member or were built together",
          "[rank_digest]") {
  const bool shares = GENERATE(true, false);
  Rank rank;
  rank.send_large(net());
  if (shares) build(rank, {kWeight, kHead});
  rank.members({{kWeight, kBias}});
  rank.step({kWeight, kBias});
  if (!shares) build(rank, {kHead});
  step_later(rank, {kHead});
  CHECK(rank.digests.back().members == (shares ? 4 : 3));
  CHECK(rank.digests.back().groups == 2);
}

}  // namespace ddpscope::test::replaced_optimizer_test
