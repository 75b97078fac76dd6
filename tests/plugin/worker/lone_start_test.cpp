// Steps that a rank made alone before it trained with others.
#include "tests/plugin/worker/one_rank.h"
#include "tests/support/catch.h"

namespace ddpscope::test {
namespace {
constexpr std::int64_t kTrained = 12;  // elements of net()

void issue(Rank& rank, CollectiveKind kind, std::int64_t elements = 0) {
  rank.send_large(
      CollectiveEvent{.at = rank.now(), .group_size = 2, .kind = kind, .elements = elements});
}

void broadcast(Rank& rank, std::int64_t elements) {
  issue(rank, CollectiveKind::kBroadcast, elements);
}

void load(Rank& rank, std::int64_t elements) {
  rank.send_large(
      ArchiveTensorEvent{.at = rank.now(), .tensor = kWeight, .now = {.elements = elements}});
}

/// While hooks rest: no backward tells that a step began.
void two_level_step(Rank& rank, CollectiveKind first) {
  issue(rank, first, kTrained);
  broadcast(rank, kTrained);
  rank.end_step();
}

void averaged_step(Rank& rank) {
  rank.backward({kWeight, kBias, kHead});
  rank.send_large(CollectiveEvent{.at = rank.now(), .group_size = 2, .averages = true});
  rank.end_step();
}

struct Trained : Rank {
  Trained() {
    send_large(net());
    members({{kWeight, kBias, kHead}});
  }
};
}  // namespace

TEST_CASE("A load while it trains is told once for each step", "[rank_digest]") {
  Trained rank;
  load(rank, kTrained);
  averaged_step(rank);
  CHECK(rank.of(BlobKind::kLoad).empty());
  load(rank, 4);
  load(rank, 4);
  REQUIRE(rank.of(BlobKind::kLoad).size() == 1);
  CHECK(rank.of(BlobKind::kLoad)[0].step == 2);
}

TEST_CASE("Steps before a broadcast of all that is trained are of one rank alone",
          "[rank_digest]") {
  Trained rank;
  rank.step();
  rank.step();
  broadcast(rank, kTrained - 4);  // in parts
  CHECK(rank.lone.empty());
  broadcast(rank, 4);
  CHECK(rank.lone.empty());  // nothing is averaged as yet
  averaged_step(rank);
  averaged_step(rank);
  REQUIRE(rank.lone.size() == 1);
  CHECK(rank.lone[0].steps == 2);
  CHECK(rank.lone[0].backwards == 2);
  CHECK(rank.lone[0].optimizer_steps == 2);
  CHECK(rank.digests.back().call_count - rank.lone[0].call_count == 2);
}

TEST_CASE("Steps before the first call of all, or a load, are of one rank alone", "[rank_digest]") {
  Trained rank;
  rank.step();
  rank.step();
  SECTION("a barrier") { issue(rank, CollectiveKind::kBarrier); }
  SECTION("a broadcast of a rate, and what else follows it") {
    broadcast(rank, 1);
    issue(rank, CollectiveKind::kAllReduce, 1);
  }
  SECTION("a load of all that is trained") { load(rank, kTrained); }
  SECTION("a load in parts") {
    load(rank, kTrained - 4);
    load(rank, 4);
  }
  averaged_step(rank);
  REQUIRE(rank.lone.size() == 1);
  CHECK(rank.lone[0].steps == 2);
  CHECK(rank.digests.back().call_count - rank.lone[0].call_count == 1);
}

TEST_CASE("No steps are of one rank alone", "[rank_digest]") {
  Trained rank;
  SECTION("where parameters were sent before the first") { broadcast(rank, kTrained); }
  SECTION("where they were read before the first") { load(rank, kTrained); }
  SECTION("where nothing came between them and those with others") { rank.step(); }
  SECTION("where ranks summed up before less was sent") {
    rank.step();
    issue(rank, CollectiveKind::kAllReduce, kTrained);
    broadcast(rank, kTrained - 1);
  }
  SECTION("where less was sent inside a step") {
    rank.step();
    rank.backward({kWeight, kBias, kHead});
    broadcast(rank, kTrained - 1);
    rank.end_step();
  }
  SECTION("where less was read") {
    rank.step();
    load(rank, kTrained - 1);
  }
  SECTION("where one trained between two parts") {
    rank.step();
    load(rank, kTrained - 4);
    rank.step();
    load(rank, 4);
  }
  SECTION("where each sends what it has to a leader, which broadcasts the mean") {
    for (int i = 0; i < 3; ++i) two_level_step(rank, CollectiveKind::kSend);
  }
  SECTION("where leaders receive it and broadcast the mean") {
    for (int i = 0; i < 3; ++i) two_level_step(rank, CollectiveKind::kReceive);
  }
  SECTION("where it is reduced to a leader, which broadcasts the mean") {
    for (int i = 0; i < 3; ++i) two_level_step(rank, CollectiveKind::kReduce);
  }
  SECTION("where the ranks had averaged before") {
    averaged_step(rank);
    broadcast(rank, kTrained);
  }
  averaged_step(rank);
  CHECK(rank.lone.empty());
}

TEST_CASE("An optimizer that stepped alone is not compared", "[rank_digest]") {
  Trained rank;
  rank.step();
  broadcast(rank, kTrained);
  averaged_step(rank);
  CHECK(rank.digests.back().groups == 1);  // it goes on
  Rank other;
  other.send_large(net());
  other.members({{kWeight, kBias}, {kHead}});
  other.step();
  broadcast(other, kTrained);
  other.backward({kWeight, kBias, kHead});
  other.send_large(CollectiveEvent{.at = other.now(), .group_size = 2, .averages = true});
  other.end_step(/*whole=*/true, /*optimizer=*/kSgd + 1);
  CHECK(other.digests.back().groups == 0);
}

}  // namespace ddpscope::test
