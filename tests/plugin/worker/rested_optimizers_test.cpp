// What a rank tells of its optimizers in steps in which hooks rest.
#include "tests/plugin/worker/one_rank.h"
#include "tests/support/catch.h"

namespace ddpscope::test::rested_optimizers_test {
namespace {
constexpr OptimizerId kOther = kSgd + 1;

void train(Rank& rank) {
  rank.send_large(net());
  rank.members({{kWeight, kBias}, {kHead}});
  rank.step();
}

void members_of_other(Rank& rank, TensorId member) {
  OptimizerMembersEvent event{.at = rank.now(), .optimizer = kOther, .type = "torch::optim::SGD"};
  event.groups = {{{.tensor = member, .requires_grad = true}}};
  event.options = {{.learning_rate = 0.5}};
  rank.send_large(std::move(event));
}

/// As hooks tell it: of the optimizer that steps, where its rates changed.
void rested_step_of_other(Rank& rank) {
  rank.send_large(OptimizerRatesEvent{
      .at = rank.now(), .optimizer = kOther, .options = {{.learning_rate = 0.5}}});
  rank.rest();
}
}  // namespace

TEST_CASE("A rate that changes while hooks rest is told in its step", "[rank_digest]") {
  Rank rank;
  train(rank);
  const StepDigest watched = rank.digests.back();
  rank.rest();
  CHECK(rank.digests.back().optimizers == watched.optimizers);
  CHECK(rank.digests.back().learning_rate == 0.1);
  CHECK(rank.digests.back().groups == 2);
  CHECK(rank.digests.back().members == 0);
  rank.rate(0.2);
  rank.rest();
  const StepDigest rested = rank.digests.back();
  CHECK(rested.learning_rate == 0.2);
  CHECK(rested.optimizers != watched.optimizers);
  rank.step();
  CHECK(rank.digests.back().optimizers == rested.optimizers);
  CHECK(rank.digests.back().learning_rate == 0.2);
  CHECK(rank.digests.back().members == 3);
}

TEST_CASE("Ranks that rest differently tell the same of their optimizers", "[rank_digest]") {
  Rank watched, rested;
  train(watched);
  train(rested);
  for (const bool begins : {false, true, true}) {
    if (begins) {
      members_of_other(watched, kMean);
      members_of_other(rested, kMean);
    }
    watched.backward({kWeight, kBias, kHead});
    watched.end_step(/*whole=*/true, begins ? kOther : kSgd);
    begins ? rested_step_of_other(rested) : rested.rest();
    CHECK(rested.digests.back().optimizers == watched.digests.back().optimizers);
    CHECK(rested.digests.back().groups == watched.digests.back().groups);
    CHECK(rested.digests.back().learning_rate == watched.digests.back().learning_rate);
  }
}

TEST_CASE("Which of several optimizers of a member steps is not told while hooks rest",
          "[rank_digest]") {
  Rank rank;
  train(rank);
  members_of_other(rank, kHead);
  rested_step_of_other(rank);
  CHECK(rank.digests.back().optimizers == 0);
}

TEST_CASE("Of events that were lost nothing is told while hooks rest", "[rank_digest]") {
  Rank rank;
  train(rank);
  rank.send(DroppedEvent{3});
  rank.rest();
  rank.rest();
  CHECK(rank.digests.back().optimizers == 0);
  rank.step();
  CHECK(rank.digests.back().optimizers != 0);
}

}  // namespace ddpscope::test::rested_optimizers_test
