#include <functional>

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::arrival_compare_test {
namespace {
constexpr std::int32_t kSteps = 80;

/// Milliseconds of one step of a rank, up to its first collective.
struct Work {
  std::int64_t data = 1;
  std::int64_t forward = 5;
  std::int64_t backward = 4;
  std::int64_t optimizer = 1;
  std::int64_t messages = 0;  ///< waits for another rank alone, before the forward
  std::int64_t rows = 0;      ///< of its batch, where it changed
};
using Plan = std::function<Work(std::size_t rank, std::int32_t step)>;

struct Ranks {
  std::size_t count = 3;
  bool parts_known = true;
  bool average = true;
  std::int64_t clock_ahead_ms = 0;  ///< of the last rank
};

/// All ranks leave a collective at the same moment, so those that come early wait in it.
void run_step(TestRun& run, std::int32_t step, const Plan& plan, const Ranks& ranks) {
  std::int64_t latest = 0;
  for (std::size_t rank = 0; rank < ranks.count; ++rank) {
    const Work work = plan(rank, step);
    run[rank].at_step(step);
    if (work.messages > 0) {
      run[rank].enter(group_key(5 << 21, 2));
      run[rank].call({.kind = CollectiveKind::kReceive,
                      .waited_us = static_cast<std::uint32_t>(1000 * work.messages),
                      .took_ms = work.messages,
                      .phase = Phase::kForward});
      run[rank].enter(group_key(7 << 21, static_cast<std::int64_t>(ranks.count)));
    }
    run[rank].pass_ms(work.data + work.forward + work.backward);
    const std::int64_t own = rank + 1 == ranks.count ? ranks.clock_ahead_ms : 0;
    latest = std::max(latest, run[rank].now() / kMsNs - own);
  }
  for (std::size_t rank = 0; rank < ranks.count; ++rank) {
    const Work work = plan(rank, step);
    const std::int64_t own = rank + 1 == ranks.count ? ranks.clock_ahead_ms : 0;
    const auto waits = latest - (run[rank].now() / kMsNs - own);
    if (ranks.average) run[rank].reduce_and_wait("fc1.weight", waits + 1);
    run[rank].pass_ms(work.optimizer);
    StepDigest digest{.step = step, .batch = 1};
    if (work.rows > 0) {
      const std::string shape = "[" + std::to_string(work.rows) + ", 3] float32";
      run[rank].writer.put(
          Blob{.kind = BlobKind::kBatch, .number = 0, .step = step, .bytes = shape});
    }
    if (ranks.parts_known) {
      digest.wait_us = static_cast<std::int32_t>(1000 * work.data);
      digest.forward_us = static_cast<std::int32_t>(1000 * work.forward);
    }
    run[rank].digest(digest);
  }
}

std::vector<Straggler> stragglers(const Plan& plan, const Ranks& ranks = {}) {
  TestRun run(static_cast<std::int64_t>(ranks.count));
  for (auto& rank : run) rank->enter(group_key(7 << 21, static_cast<std::int64_t>(ranks.count)));
  run[ranks.count - 1].pass_ms(ranks.clock_ahead_ms);
  for (std::int32_t step = 1; step <= kSteps; ++step) run_step(run, step, plan, ranks);
  const RanksComparedEvent event = run.compared();
  REQUIRE(event.cohorts.size() == 1);
  return event.cohorts[0].stragglers;
}

Work alike(std::size_t, std::int32_t) { return {}; }
Work slow_last(std::size_t rank, std::int32_t) { return {.forward = rank == 2 ? 25 : 5}; }
}  // namespace

TEST_CASE("a rank whose forward is slow in each step is told with what it costs", "[compare]") {
  const auto told = stragglers(slow_last);
  REQUIRE(told.size() == 1);
  CHECK(told[0].rank == 2);
  CHECK(told[0].late == 50);
  CHECK(told[0].steps == 50);
  CHECK(told[0].step == 60);
  CHECK(told[0].lost_ms == Approx(20));
  CHECK(told[0].phase == "forward");
  CHECK(told[0].phase_ms == Approx(25));
  CHECK(told[0].others_ms == Approx(5));
  CHECK(told[0].step_ms == Approx(32));
}

TEST_CASE("the part of the step in which a rank is slow is told", "[compare]") {
  const auto part_of = [](Work slow) {
    const auto told =
        stragglers([slow](std::size_t rank, std::int32_t) { return rank == 0 ? slow : Work{}; });
    REQUIRE(told.size() == 1);
    CHECK(told[0].rank == 0);
    return told[0].phase;
  };
  CHECK(part_of({.data = 20}) == "data");
  CHECK(part_of({.backward = 20}) == "backward");
  CHECK(part_of({.optimizer = 20}) == "optimizer");
}

TEST_CASE("a rank that is slow beside one that waits for messages is told", "[compare]") {
  const auto told = stragglers([](std::size_t rank, std::int32_t) {
    return Work{.backward = rank == 2 ? 34 : 4, .messages = rank == 1 ? 10 : 0};
  });
  REQUIRE(told.size() == 1);
  CHECK(told[0].rank == 2);
  CHECK(told[0].lost_ms == Approx(20));
  CHECK(told[0].phase == "backward");
}

TEST_CASE("clocks of hosts that differ by seconds make no rank late", "[compare]") {
  CHECK(stragglers(alike, {.clock_ahead_ms = 5000}).empty());
  const auto told = stragglers(slow_last, {.clock_ahead_ms = 5000});
  REQUIRE(told.size() == 1);
  CHECK(told[0].lost_ms == Approx(20));
}

TEST_CASE("a rank that grows slow is told at the end of what is left of the run", "[compare]") {
  const auto told = stragglers([](std::size_t rank, std::int32_t step) {
    return Work{.forward = rank == 2 && step > 30 ? 25 : 5};
  });
  REQUIRE(told.size() == 1);
  CHECK(told[0].step == kSteps);
  CHECK(told[0].late == 50);
}

TEST_CASE("what a rank costs is told in five parts of the window", "[compare]") {
  const auto told = stragglers([](std::size_t rank, std::int32_t step) {
    return Work{.forward = rank == 2 ? 15 + step : 5};
  });
  REQUIRE(told.size() == 1);
  REQUIRE(told[0].lost_per_part.size() == 5);
  CHECK(told[0].lost_per_part[0] == Approx(26));
  CHECK(told[0].lost_per_part[4] == Approx(66));
  CHECK(told[0].batch_ratio == 0);
}

TEST_CASE("the batches of a late rank are compared with those of the others", "[compare]") {
  const auto told = stragglers([](std::size_t rank, std::int32_t step) {
    const std::int64_t rows = step == 1 || step == 30 ? 8 : 0;
    return Work{.forward = rank == 2 ? 25 : 5, .rows = rank == 2 ? 3 * rows : rows};
  });
  REQUIRE(told.size() == 1);
  CHECK(told[0].batch_ratio == Approx(3));
}

TEST_CASE("a late rank is told without the part where the parts are not known", "[compare]") {
  const auto told = stragglers(slow_last, {.parts_known = false});
  REQUIRE(told.size() == 1);
  CHECK(told[0].rank == 2);
  CHECK(told[0].phase.empty());
}

TEST_CASE("nothing is said of ranks", "[compare]") {
  SECTION("that are equally fast") { CHECK(stragglers(alike).empty()); }
  SECTION("that are late in turn") {
    CHECK(stragglers([](std::size_t rank, std::int32_t step) {
            return Work{.forward = static_cast<std::size_t>(step) % 3 == rank ? 25 : 5};
          }).empty());
  }
  SECTION("that do more in one of ten steps") {
    CHECK(stragglers([](std::size_t rank, std::int32_t step) {
            return Work{.data = rank == 0 && step % 10 == 0 ? 300 : 1};
          }).empty());
  }
  SECTION("that are slow in the first steps alone") {
    CHECK(stragglers([](std::size_t rank, std::int32_t step) {
            return Work{.forward = rank == 2 && step <= 15 ? 25 : 5};
          }).empty());
  }
  SECTION("that are late by less than two milliseconds") {
    CHECK(stragglers([](std::size_t rank, std::int32_t) {
            return Work{.forward = rank == 2 ? 7 : 5};
          }).empty());
  }
  SECTION("that are late by less than a twentieth of the step") {
    CHECK(stragglers([](std::size_t rank, std::int32_t) {
            return Work{.data = 100, .forward = rank == 2 ? 10 : 5};
          }).empty());
  }
  SECTION("that wait for messages of another rank") {
    CHECK(stragglers([](std::size_t rank, std::int32_t) {
            return Work{.messages = rank == 1 ? 20 : 0};
          }).empty());
  }
  SECTION("that come no later than others that waited for messages") {
    CHECK(stragglers([](std::size_t rank, std::int32_t) {
            return Work{.forward = rank == 2 ? 25 : 5, .messages = rank == 2 ? 0 : 20};
          }).empty());
  }
  SECTION("that exchange nothing") { CHECK(stragglers(slow_last, {.average = false}).empty()); }
}

}  // namespace ddpscope::test::arrival_compare_test
