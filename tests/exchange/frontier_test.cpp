// Where ranks stand when some wait for others.
#include <filesystem>

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::frontier_test {
namespace {
Frontier only(const RanksComparedEvent& event) {
  REQUIRE(event.frontiers.size() == 1);
  return event.frontiers[0];
}

/// Ranks 0-2 wait in the third call of step 9; rank 3 evaluates.
void hang(TestRun& run) {
  for (std::int32_t step = 1; step <= 8; ++step) run.reduce_all(step, {"a", "b", "c"});
  run.reduce_all(9, {"a", "b"});
  for (const std::size_t rank : {0, 1, 2}) {
    run[rank].call({.owner = "c.grad", .module = "layer2", .state = CallState::kIssued});
  }
  for (auto& rank : run) rank->pass_ms(30'000);
  for (auto& rank : run) rank->beat("evaluate");
}
}  // namespace

TEST_CASE("the frontier names who waits, in which call, and who never issued it", "[compare]") {
  TestRun run(4);
  hang(run);
  const Frontier frontier = only(run.compared());
  CHECK(frontier.seq == 27);
  CHECK(frontier.waiting == RankList{0, 1, 2});
  CHECK(frontier.behind == RankList{3});
  CHECK(frontier.call.owner == "c.grad");
  CHECK(frontier.call.module == "layer2");
  CHECK(frontier.call.record.step == 9);
  CHECK(frontier.waited_ms >= 30'000);
  CHECK(frontier.waited_ms <= 30'010);
  CHECK(frontier.median_wait_ms == 0);
  REQUIRE(frontier.stands.size() == 4);
  CHECK(frontier.stands[3].last_seq == 26);
  CHECK_FALSE(frontier.stands[3].is_open);
  CHECK(frontier.stands[3].module == "evaluate");
  CHECK(frontier.stands[3].step == 9);
  CHECK(frontier.stands[0].is_open);
  CHECK(run.compared().stands[0].step == 9);
  CHECK(frontier.stands[0].last.owner == "c.grad");
}

TEST_CASE("a call that knew only a part has the path in the model that was attached later",
          "[compare]") {
  TestRun run(2);
  const auto owner_where = [&](std::vector<std::string> paths) {
    TensorList list{.model = "Net", .tensors = {}};
    for (std::string& path : paths) {
      list.tensors.push_back({.path = std::move(path), .dtype = "float32"});
    }
    for (auto& rank : run) rank->list(list);
    return only(run.compared()).call.owner;
  };
  run[0].call({.owner = "fc.weight.grad", .state = CallState::kIssued});
  CHECK(owner_where({"body.fc.weight", "body.fc.bias"}) == "body.fc.weight.grad");
  CHECK(owner_where({"body.fc.weight", "fc.weight"}) == "fc.weight.grad");
  CHECK(owner_where({"body.fc.weight", "head.fc.weight"}) == "fc.weight.grad");
  CHECK(owner_where({"body.other_fc.weight"}) == "fc.weight.grad");
}

TEST_CASE("a rank that issued no call at all is behind", "[compare]") {
  TestRun run(2);
  run[0].call({.owner = "a", .state = CallState::kIssued});
  const Frontier frontier = only(run.compared());
  CHECK(frontier.behind == RankList{1});
  CHECK(frontier.stands[1].last_seq == 0);
}

TEST_CASE("ranks wait for one that left no ring where all of them are in a call", "[compare]") {
  TestRun run(3);
  run.reduce_all(1, {"a"});
  std::filesystem::remove(run.dir() + "/rank-2.ring");
  CHECK(run.compared().frontiers.empty());
  run[0].call({.owner = "b", .state = CallState::kIssued});
  run[1].call({.owner = "b", .state = CallState::kIssued});
  const Frontier frontier = only(run.compared());
  CHECK(frontier.unknown == 1);
  CHECK(frontier.waiting == RankList{0, 1});
  CHECK(frontier.behind.empty());
  CHECK(frontier.seq == 2);
}

TEST_CASE("ranks that are ahead but returned do not wait", "[compare]") {
  TestRun run(2);
  run.reduce_all(1, {"a"});
  run[0].reduce("b");
  CHECK(run.compared().frontiers.empty());
}

TEST_CASE("of several open calls the one that others miss first counts", "[compare]") {
  TestRun run(2);
  run.reduce_all(1, {"a"});
  for (const char* name : {"b", "c", "d"}) {
    run[0].call({.owner = name, .state = CallState::kIssued});
  }
  run[1].call({.owner = "b", .state = CallState::kIssued});
  const Frontier frontier = only(run.compared());
  CHECK(frontier.seq == 3);
  CHECK(frontier.call.owner == "c");
}

TEST_CASE("how long a rank waited ends with the rank", "[compare]") {
  TestRun run(2);
  run.reduce_all(1, {"a"});
  run[0].call({.owner = "b", .state = CallState::kIssued});
  CompareOptions options;
  options.endings.ranks = {{.rank = 0, .unix_ns = run[0].now() + 2000 * kMsNs},
                           {.rank = 1, .unix_ns = run[0].now() + 9000 * kMsNs}};
  const Frontier ended = only(run.compared(options));
  CHECK(ended.waited_ms == 2001);
  const Frontier live = only(run.compared({.now_unix_ns = run[0].now() + 500 * kMsNs}));
  CHECK(live.waited_ms == 501);
}

TEST_CASE("while ranks run it is told how long each neither moved nor beat", "[compare]") {
  TestRun run(4);
  hang(run);
  const std::int64_t now = run[3].now() + 4000 * kMsNs;
  CompareOptions options{.now_unix_ns = now};
  options.still_since_unix_ns[3] = now - 9000 * kMsNs;
  const RanksComparedEvent event = run.compared(options);
  const RankStand late = only(event).stands[3];
  CHECK(event.live);
  CHECK(late.silent_ms == 4000);
  CHECK(late.still_ms == 9000);
  CHECK(only(event).stands[0].still_ms == -1);
  CHECK(event.stands[3].still_ms == 9000);
  CHECK(run.compared().stands[3].silent_ms == -1);
}

TEST_CASE("a call that threw tells itself how long it took", "[compare]") {
  TestRun run(2);
  run.reduce_all(1, {"a"});
  run[0].call({.owner = "b", .state = CallState::kFailed});
  run[0].pass_ms(90'000);
  run[0].beat("");
  CHECK(only(run.compared()).waited_ms == 0);  // 500 us
}

TEST_CASE("a rank stands in the step after the last one that it ended", "[compare]") {
  TestRun run(2);
  run.reduce_all(4, {"a"});
  for (auto& rank : run) {
    rank->beat("conv");
    rank->digest({.step = 4});
  }
  CHECK(run.compared().stands[0].step == 5);
  run[0].beat("conv", Phase::kExit, /*ended=*/true);
  CHECK(run.compared().stands[0].step == 4);
}

TEST_CASE("a rank that was ended while it waited is in the backward after its last digest",
          "[compare]") {
  TestRun run(2);
  for (auto& rank : run) rank->digest({.step = 4, .backwards = 4});
  for (auto& rank : run) rank->at_step(5);
  run[0].call({.owner = "a.grad", .state = CallState::kIssued});
  const RanksComparedEvent event = run.compared();
  CHECK(event.cohorts.at(0).counts.at(0).backwards == 5);
  CHECK(event.cohorts[0].counts[0].step == 5);
  CHECK(event.cohorts[0].counts.at(1).backwards == 4);
  CHECK(run.compared({.now_unix_ns = run[0].now()}).cohorts[0].counts[0].backwards == 4);
  SECTION("or in one behind that, where not all were written") {
    run[0].at_step(6);
    run[0].call({.owner = "a.grad", .state = CallState::kIssued});
    CHECK(run.compared().cohorts[0].counts[0].backwards == 6);
  }
  SECTION("likewise of one that ended itself after its call") {
    run[1].call({.owner = "a.grad"});
    CHECK(run.compared().cohorts[0].counts[1].backwards == 5);
  }
  SECTION("unless that is there") {
    run[0].digest({.step = 5, .backwards = 5});
    CHECK(run.compared().cohorts[0].counts[0].backwards == 5);
  }
}

TEST_CASE("where each rank stands is told in the group of its last call", "[compare]") {
  TestRun run(3);
  run.reduce_all(4, {"a"});
  run[1].enter(group_key(0x5555555500000000, 1));
  run[1].reduce("alone");
  const RanksComparedEvent event = run.compared();
  REQUIRE(event.stands.size() == 3);
  CHECK(event.stands[0].last.owner == "a.grad");
  CHECK(event.stands[1].last.owner == "alone.grad");
  CHECK(event.stands[1].last_seq == 1);
}

}  // namespace ddpscope::test::frontier_test
