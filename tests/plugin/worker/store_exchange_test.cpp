// Ranks whose report folders are their own share a store.
#include "plugin/store_exchange.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "checks/ranks_judge.h"
#include "exchange/rank_compare.h"
#include "exchange/ring_set.h"
#include "model/clock.h"
#include "plugin/step_compare.h"
#include "tests/plugin/worker/shelf.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::store_exchange_test {
namespace {
using std::chrono::milliseconds;
constexpr std::int64_t kLongNs = 3'600'000'000'000;

/// Rank 0, while it trains.
class Speaker {
 public:
  Speaker(Member& lowest, std::int64_t world_size)
      : lowest_(lowest), compare_(run_of(world_size), Settings()) {
    compare_.begin(lowest.options.dir, 1);
  }
  Findings look() {
    lowest_.ring.pass_ms(1000);
    lowest_.ring.beat("fc1");
    now_ns_ += kLongNs;
    return compare_.look(now_ns_, {.own = [] { return Findings(); },
                                   .has_to_end = [] { return false; },
                                   .images = lowest_.exchange.images()});
  }

 private:
  static RunRecord run_of(std::int64_t world_size) {
    RunRecord run;
    run.run_id = "r1";
    run.world_size = world_size;
    run.checks = {"rank-optimizer-differs"};
    return run;
  }

  Member& lowest_;
  StepCompare compare_;
  std::int64_t now_ns_ = 1;
};
}  // namespace

TEST_CASE("Ranks without a common folder are compared over a store, as a merge says it",
          "[store_exchange]") {
  const TemporaryDir dir_0;
  const TemporaryDir dir_1;
  const auto shelf = std::make_shared<Shelf>();
  Member lowest(shelf, 0, dir_0.path());
  Member other(shelf, 1, dir_1.path());
  Speaker speaker(lowest, 2);
  Findings found;
  for (const std::int64_t step : {4, 8}) {
    lowest.train_to(step, 0.1);
    other.train_to(step, 0.01);
    lowest.start();
    other.start();
    REQUIRE(in_time([&] { return last_step_of(lowest) == step; }));
    for (int i = 0; i < 3; ++i) {
      Findings more = speaker.look();
      found.insert(found.end(), more.begin(), more.end());
    }
  }
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == "learning rate 0.01 on rank 1, 0.1 on rank 0, since step 1");

  auto places = list_rings(dir_0.path());
  for (const RingPlace& place : list_rings(dir_1.path())) places.push_back(place);
  const RingSet set = open_rings(places, "r1");
  const RanksComparedEvent run = compare_ranks(set.rings, {.world_size = 2});
  const Findings merged = judge_ranks(run, {.enabled = {"rank-optimizer-differs"}}).findings;
  REQUIRE(merged.size() == 1);
  CHECK(found[0].what == merged[0].what);
  CHECK(found[0].fingerprint == merged[0].fingerprint);
  CHECK(other.exchange.is_heard());
  CHECK(shelf->most_keys() == 1);
  CHECK(in_time([&] { return shelf->keys() == 0; }));
}

TEST_CASE("Of two hosts with two ranks each, those of the other host send", "[store_exchange]") {
  const TemporaryDir here;
  const TemporaryDir there;
  const auto shelf = std::make_shared<Shelf>();
  Member lowest(shelf, 0, here.path(), "r1", 4);
  Member beside(shelf, 1, here.path(), "r1", 4);
  Member first_there(shelf, 2, there.path(), "r1", 4);
  Member last(shelf, 3, there.path(), "r1", 4);
  Speaker speaker(lowest, 4);
  Findings found;
  for (const std::int64_t step : {4, 8, 16}) {
    for (Member* member : {&lowest, &beside, &first_there, &last}) {
      member->train_to(step, member == &last ? 0.01 : 0.1);
      member->start();
    }
    REQUIRE(in_time([&] { return last_step_of(lowest, 2) == step; }));
    REQUIRE(in_time([&] { return last_step_of(lowest, 3) == step; }));
    for (int i = 0; i < 3; ++i) {
      beside.ring.pass_ms(1000);
      beside.ring.beat("fc1");
      Findings more = speaker.look();
      found.insert(found.end(), more.begin(), more.end());
    }
  }
  CHECK(lowest.exchange.images().size() == 2);
  CHECK(shelf->most_keys() <= 2);
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == "learning rate 0.01 on rank 3, 0.1 on ranks 0-2, since step 1");
}

TEST_CASE("A rank sends at the steps that are compared and at no other", "[store_exchange]") {
  const TemporaryDir dir_0;
  const TemporaryDir dir_1;
  const auto shelf = std::make_shared<Shelf>();
  Member lowest(shelf, 0, dir_0.path());
  Member other(shelf, 1, dir_1.path());
  other.options.every = 100;
  other.train_to(8, 0.1);  // before it looks: else it may see step 7 and send step 8 with it
  lowest.start();
  other.start();
  REQUIRE(in_time([&] { return last_step_of(lowest) == 8; }));
  other.train_to(100, 0.1);
  std::this_thread::sleep_for(milliseconds(2500));
  CHECK(last_step_of(lowest) == 8);
  other.train_to(108, 0.1);
  CHECK(in_time([&] { return last_step_of(lowest) == 108; }));
}

TEST_CASE("A rank whose ring the lowest one has in its folder sends nothing", "[store_exchange]") {
  const TemporaryDir dir;
  const auto shelf = std::make_shared<Shelf>();
  Member lowest(shelf, 0, dir.path());
  Member other(shelf, 1, dir.path());
  const bool asked = GENERATE(false, true);
  for (Member* member : {&lowest, &other}) {
    member->options.also_in_folder = asked;
    member->train_to(4, 0.1);
    member->start();
  }
  if (asked) {
    CHECK(in_time([&] { return last_step_of(lowest) == 4; }));
  } else {
    std::this_thread::sleep_for(milliseconds(2500));
    CHECK(shelf->sets() == 0);
    CHECK(lowest.exchange.images().empty());
  }
}

TEST_CASE("A store that does not answer ends the exchange with one line", "[store_exchange]") {
  const TemporaryDir dir;
  const auto shelf = std::make_shared<Shelf>();
  shelf->block();
  Member other(shelf, 1, dir.path());
  other.options.timeout_ms = 300;
  other.train_to(4, 0.1);
  other.start();
  REQUIRE(in_time([&] { return shelf->is_blocking(); }));
  std::string said;
  REQUIRE(in_time([&] {
    said = other.exchange.trouble(steady_ns());
    return !said.empty();
  }));
  CHECK(said ==
        "the exchange between ranks has ended: its store did not answer within 300 ms. Ranks are "
        "compared by the files of their report folders; training continues.");
  CHECK(other.exchange.trouble(steady_ns()).empty());
  CHECK_FALSE(other.exchange.is_live());
  CHECK(seconds_of([&] { other.exchange.stop(); }) < 0.2);
}

TEST_CASE("The end waits for a call in progress until its timeout", "[store_exchange]") {
  const TemporaryDir dir;
  const auto shelf = std::make_shared<Shelf>();
  shelf->block();
  Member other(shelf, 1, dir.path());
  other.options.timeout_ms = 1000;
  other.train_to(4, 0.1);
  other.start();
  REQUIRE(in_time([&] { return shelf->is_blocking(); }));
  SECTION("and no longer") {
    CHECK(seconds_of([&] { other.exchange.stop(); }) < 1.5);
  }
  SECTION("and goes on as soon as it returns") {
    std::thread releasing([&] {
      std::this_thread::sleep_for(milliseconds(100));
      shelf->release();
    });
    CHECK(seconds_of([&] { other.exchange.stop(); }) < 0.9);
    releasing.join();
  }
}

TEST_CASE("An exchange that waits for its next turn ends at once", "[store_exchange]") {
  const TemporaryDir dir;
  const auto shelf = std::make_shared<Shelf>();
  Member other(shelf, 1, dir.path());
  other.train_to(4, 0.1);
  other.start();
  REQUIRE(in_time([&] { return shelf->sets() == 1; }));
  CHECK(seconds_of([&] { other.exchange.stop(); }) < 0.5);
  CHECK(other.exchange.trouble(steady_ns()).empty());
}

TEST_CASE("A store that fails ends the exchange with one line", "[store_exchange]") {
  const TemporaryDir dir;
  const auto shelf = std::make_shared<Shelf>();
  shelf->fail("Connection reset by peer\nand a stack");
  Member other(shelf, 1, dir.path());
  other.train_to(4, 0.1);
  other.start();
  std::string said;
  REQUIRE(in_time([&] {
    said = other.exchange.trouble(steady_ns());
    return !said.empty();
  }));
  CHECK(said ==
        "the exchange between ranks has ended: \"Connection reset by peer\". Ranks are compared by "
        "the files of their report folders; training continues.");
  CHECK(other.exchange.trouble(steady_ns()).empty());
  CHECK(in_time([&] { return !other.exchange.is_live(); }));
}

TEST_CASE("Where no store is found this is said once, and looked for further", "[store_exchange]") {
  const TemporaryDir dir;
  const auto shelf = std::make_shared<Shelf>();
  Member other(shelf, 1, dir.path());
  other.options.timeout_ms = 50;
  other.train_to(4, 0.1);
  std::atomic<bool> is_there{false};
  other.exchange.start(other.options, [&is_there, shelf]() -> std::unique_ptr<SharedStore> {
    if (!is_there) return nullptr;
    return std::make_unique<OnShelf>(shelf);
  });
  std::string said;
  REQUIRE(in_time([&] {
    said = other.exchange.trouble(steady_ns());
    return !said.empty();
  }));
  CHECK(said.starts_with("exchange=store: set_exchange gave no store, and rank 0 has published"));
  is_there = true;
  CHECK(in_time([&] { return shelf->sets() == 1; }));
  CHECK(other.exchange.trouble(steady_ns()).empty());
  other.exchange.stop();
}

TEST_CASE("A store that was closed as it should be ends the exchange silently",
          "[store_exchange]") {
  const TemporaryDir dir;
  const auto shelf = std::make_shared<Shelf>();
  Member other(shelf, 1, dir.path());
  other.exchange.start(other.options,
                       []() -> std::unique_ptr<SharedStore> { throw StoreClosed{}; });
  CHECK(in_time([&] { return !other.exchange.is_live(); }));
  CHECK(other.exchange.trouble(steady_ns()).empty());
}

TEST_CASE("A rank of another run is named, but not what it left before a restart",
          "[store_exchange]") {
  const TemporaryDir dir_0;
  const TemporaryDir dir_1;
  const TemporaryDir dir_after;
  const auto shelf = std::make_shared<Shelf>();
  Member lowest(shelf, 0, dir_0.path());
  Member other(shelf, 1, dir_1.path(), "r2");
  other.train_to(4, 0.1);
  other.start();
  REQUIRE(in_time([&] { return shelf->keys() == 1; }));
  SECTION("restarted") {
    other.exchange.stop();
    lowest.start();
    Member after(shelf, 1, dir_after.path());
    after.train_to(8, 0.1);
    after.start();
    REQUIRE(in_time([&] { return last_step_of(lowest) == 8; }));
    CHECK(lowest.exchange.trouble(steady_ns()).empty());
  }
  SECTION("going on") {
    lowest.start();
    REQUIRE(in_time([&] { return last_step_of(lowest) == 4; }));
    other.train_to(8, 0.1);
    std::string said;
    REQUIRE(in_time([&] {
      said = lowest.exchange.trouble(steady_ns());
      return !said.empty();
    }));
    CHECK(said ==
          "rank 1 says that it is of run \"r2\", this rank is of run \"r1\", so they are not "
          "compared. Set DDPSCOPE_RUN_ID to one word on all hosts.");
  }
}

}  // namespace ddpscope::test::store_exchange_test
