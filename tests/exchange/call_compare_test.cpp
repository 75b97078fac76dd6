// Which call of a group is the first that ranks issued differently.
#include "records/site_line.h"
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::call_compare_test {
namespace {
const std::vector<std::string> kStep = {"fc2.weight", "fc1.bias", "fc1.weight"};

CallsDiffer only(const RanksComparedEvent& event) {
  REQUIRE(event.calls_differ.size() == 1);
  return event.calls_differ[0];
}
using Words = std::vector<std::string>;
}  // namespace

TEST_CASE("equal calls say nothing, however many there are", "[compare]") {
  TestRun run(4);
  for (std::int32_t step = 1; step <= 100; ++step) run.reduce_all(step, kStep);
  const RanksComparedEvent event = run.compared();
  CHECK(event.calls_differ.empty());
  CHECK(event.frontiers.empty());
  CHECK(event.calls == 1200);
  CHECK(event.with_ring == RankList{0, 1, 2, 3});
}

TEST_CASE("the first differing call is told with all sides, the smaller first", "[compare]") {
  TestRun run(4);
  for (std::int32_t step = 1; step <= 50; ++step) run.reduce_all(step, kStep);
  for (auto& rank : run) rank->at_step(51);
  for (const std::size_t rank : {0, 1, 3}) run[rank].reduce("fc2.weight", 16);
  run[2].call(
      {.owner = "", .elements = 1, .kind = CollectiveKind::kBroadcast, .module = "val", .root = 0});
  for (auto& rank : run) rank->reduce("fc1.bias");
  const CallsDiffer differ = only(run.compared());
  CHECK(differ.seq == 151);
  CHECK(differ.step == 51);
  CHECK(differ.fields == Words{"kind", "elements", "root"});
  REQUIRE(differ.sides.size() == 2);
  CHECK(differ.sides[0].ranks == RankList{2});
  CHECK(differ.sides[0].call.module == "val");
  CHECK_FALSE(differ.sides[0].as_before);
  CHECK(differ.sides[1].ranks == RankList{0, 1, 3});
  CHECK(differ.sides[1].call.owner == "fc2.weight.grad");
  CHECK(differ.sides[1].call.dtype == "float32");
  CHECK(differ.sides[1].call.record.elements == 16);
  CHECK(differ.missing == 0);
}

TEST_CASE("each side tells where it called, as far as its ring holds that", "[compare]") {
  TestRun run(3);
  run[0].site(7, line_of_json({.role = "called", .frames = {{.file = "train.cpp", .line = 88}}}));
  run[0].call({.elements = 1, .stack = 7});
  run[1].site(7, R"({"role":"called","frames":{"file":7}})");
  run[1].call({.elements = 2, .stack = 7});
  run[2].call({.elements = 3, .stack = 7});  // of which its ring has no site
  const CallsDiffer differ = only(run.compared());
  REQUIRE(differ.sides.size() == 3);
  for (const CallSide& side : differ.sides) {
    if (side.ranks != RankList{0}) {
      CHECK(side.call.site.frames.empty());
      continue;
    }
    REQUIRE(side.call.site.frames.size() == 1);
    CHECK(side.call.site.frames[0].file == "train.cpp");
    CHECK(side.call.site.frames[0].line == 88);
  }
}

TEST_CASE("two swapped reductions of equal size differ by their owners", "[compare]") {
  TestRun run(2);
  for (std::int32_t step = 1; step <= 30; ++step) run.reduce_all(step, kStep);
  run[0].at_step(31);
  run[1].at_step(31);
  run[0].reduce("fc2.weight");
  run[0].reduce("fc1.bias");
  run[1].reduce("fc1.bias");
  run[1].reduce("fc2.weight");
  const CallsDiffer differ = only(run.compared());
  CHECK(differ.seq == 91);
  CHECK(differ.fields == Words{"owner"});
  CHECK(differ.sides[0].ranks == RankList{1});  // of two of one size the one without rank 0
  CHECK_FALSE(differ.sides[0].as_before);
  CHECK(differ.sides[1].as_before);
}

TEST_CASE("an owner that one rank does not know is no difference", "[compare]") {
  TestRun run(3);
  for (int i = 0; i < 200; ++i) {
    run[0].call({.owner = "fc1.weight.grad"});
    run[1].call({.owner = ""});
    run[2].call({.owner = i == 150 ? "fc1.bias.grad" : "fc1.weight.grad"});
  }
  const CallsDiffer differ = only(run.compared());
  CHECK(differ.seq == 151);
  CHECK(differ.missing == 1);
  CHECK(differ.sides[0].ranks == RankList{2});
  CHECK(differ.sides[1].ranks == RankList{0});
}

TEST_CASE("a call in another way of reducing differs", "[compare]") {
  TestRun run(2);
  run[0].call({.owner = "fc1.weight.grad"});
  run[1].call({.owner = "fc1.weight.grad", .reduce = ReduceKind::kMax});
  CHECK(only(run.compared()).fields == Words{"reduce"});
}

TEST_CASE("a call of another dtype or root differs", "[compare]") {
  TestRun run(2);
  const auto broadcast = CollectiveKind::kBroadcast;
  run[0].call({.owner = "fc1.weight", .kind = broadcast, .root = 0});
  run[1].call({.owner = "fc1.weight", .kind = broadcast, .dtype = "float16", .root = 1});
  CHECK(only(run.compared()).fields == Words{"dtype", "root"});
}

TEST_CASE("exchanges of one layer differ in their number and their phase", "[compare]") {
  const auto exchange = [](TestRank& rank, NormPhase phase, std::uint64_t number) {
    rank.call({.owner = "bn1", .elements = 67, .norm_call = norm_call(phase, number)});
  };
  TestRun run(2);
  for (std::uint64_t number = 1; number <= 30; ++number) {
    for (auto& rank : run) {
      exchange(*rank, NormPhase::kForward, number);
      exchange(*rank, NormPhase::kBackward, number);
    }
  }
  exchange(run[0], NormPhase::kForward, 31);
  exchange(run[1], NormPhase::kBackward, 30);
  const CallsDiffer differ = only(run.compared());
  CHECK(differ.seq == 61);
  CHECK(differ.fields == Words{"layer_call"});
  REQUIRE(differ.sides.size() == 2);
  CHECK(norm_phase(differ.sides[0].call.record.norm_call) == NormPhase::kBackward);
  CHECK(norm_number(differ.sides[1].call.record.norm_call) == 31);
  // What follows is the same but for the number: the rank that went on as before is not blamed.
  CHECK_FALSE(differ.sides[0].as_before);
  CHECK(differ.sides[1].as_before);
  REQUIRE(differ.norm_calls.size() == 1);
  CHECK(differ.norm_calls[0].value == "61");
  CHECK(differ.norm_calls[0].ranks == RankList{0, 1});
}

TEST_CASE("what a rank knows as a bucket alone may be any tensor", "[compare]") {
  TestRun run(2);
  run[0].call({.owner = "fc1.weight.grad"});
  run[1].call({.owner = "bucket"});
  CHECK(run.compared().calls_differ.empty());
  run[0].call({.owner = "fc1.weight.grad"});
  run[1].call({.owner = "fc2.weight.grad"});
  CHECK(only(run.compared()).seq == 2);
}

TEST_CASE("ranks with other numbers of calls of synchronised layers are told", "[compare]") {
  TestRun run(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (std::uint64_t number = 1; number <= (rank == 1 ? 1u : 2u); ++number) {
      run[rank].call({.owner = "bn" + std::to_string(number),
                      .elements = 67,
                      .norm_call = norm_call(NormPhase::kForward, 1)});
    }
  }
  run[1].call({.owner = "head.weight.grad"});
  const CallsDiffer differ = only(run.compared());
  REQUIRE(differ.norm_calls.size() == 2);
  CHECK(differ.norm_calls[0].value == "1");
  CHECK(differ.norm_calls[0].ranks == RankList{1});
  CHECK(differ.norm_calls[1].value == "2");
  CHECK(differ.norm_calls[1].ranks == RankList{0, 2});
}

TEST_CASE("gathering and scattering calls may be of uneven sizes", "[compare]") {
  using enum CollectiveKind;
  for (const CollectiveKind kind : {kAllGather, kGather, kScatter, kAllToAll}) {
    TestRun run(2);
    run[0].call({.owner = "", .elements = 5, .kind = kind});
    run[1].call({.owner = "", .elements = 9, .kind = kind});
    CHECK(run.compared().calls_differ.empty());
  }
}

TEST_CASE("messages between two ranks are no calls of the group", "[compare]") {
  TestRun run(2);
  run[0].call({.owner = "", .kind = CollectiveKind::kSend});
  run[1].call({.owner = "", .kind = CollectiveKind::kReceive});
  CHECK(run.compared().calls_differ.empty());
}

TEST_CASE("groups are compared each within itself", "[compare]") {
  TestRun run(4);
  const std::uint64_t left = group_key(0x1111111100000000, 2);
  const std::uint64_t right = group_key(0x2222222200000000, 2);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    run[rank].enter(rank < 2 ? left : right);
    run[rank].reduce(rank < 2 ? "fc1.weight" : "fc2.weight");
    run[rank].reduce(rank == 3 ? "fc1.bias" : "fc2.bias");
  }
  const CallsDiffer differ = only(run.compared());
  CHECK(differ.group == right);
  CHECK(differ.seq == 2);
}

TEST_CASE("groups of one name are told apart by what their members issued", "[compare]") {
  TestRun run(4);
  const std::uint64_t key = group_key(0x1111111100000000, 2);
  for (auto& rank : run) rank->enter(key);
  const auto issue = [&run](std::size_t rank, const std::string& parameter) {
    run[rank].reduce(parameter);
    run[rank].reduce("head");
  };
  issue(0, "fc1");
  issue(1, "fc1");
  SECTION("where all make sense, nothing is said") {
    issue(2, "fc2");
    issue(3, "fc2");
    CHECK(run.compared().calls_differ.empty());
    CHECK(run.compared().remarks.size() == 1);  // of the cohorts
  }
  SECTION("the two that are left are one group") {
    issue(2, "fc2");
    issue(3, "fc3");
    const CallsDiffer differ = only(run.compared());
    CHECK(differ.sides[0].ranks == RankList{3});
    CHECK(differ.sides[1].ranks == RankList{2});
  }
}

TEST_CASE("groups of one name that cannot be told apart are named and left alone", "[compare]") {
  TestRun run(4);
  const std::uint64_t key = group_key(0x1111111100000000, 2);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    run[rank].enter(key);
    run[rank].reduce("fc" + std::to_string(rank));
  }
  const RanksComparedEvent event = run.compared();
  CHECK(event.calls_differ.empty());
  REQUIRE(event.remarks.size() == 2);
  CHECK(event.remarks[0] ==
        "ranks 0-3 call in groups of 2 that have one name; their calls are not compared");
}

TEST_CASE("a ring that went round is compared in what it still has", "[compare]") {
  TestRun run(2);
  for (int i = 0; i < 5000; ++i) {
    run[0].reduce(i < 500 ? "old" : "new");
    run[1].reduce("new");
  }
  CHECK(run.compared().calls_differ.empty());
  run[0].reduce("fc1");
  run[1].reduce("fc2");
  CHECK(only(run.compared()).seq == 5001);
}

}  // namespace ddpscope::test::call_compare_test
