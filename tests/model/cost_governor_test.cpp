#include "model/cost_governor.h"

#include <algorithm>
#include <vector>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kFull = 64;

/// A program whose cycles and hooks always take the same time.
struct Costs {
  double step_ms = 10;
  double structure_ms = 0;
  double values_ms = 0;
  double resting_ms = 0;
  double survey_ms = 0;
  double unseen_ms = 0;  // what a watched cycle takes longer beside the clock of hooks
};

struct Run {
  std::vector<Watch> watched;  // of each cycle
  CostGovernor governor;

  explicit Run(double budget_percent) : governor(budget_percent, kFull) {}
  Run& cycles(int count, const Costs& costs, bool may_rest = true) {
    for (int i = 0; i < count; ++i) {
      watched.push_back(next_);
      CostGovernor::Cycle cycle{.wall_ms = costs.step_ms, .surveyed = counted_ % 64 == 0};
      cycle.hooks_ms = costs.resting_ms;
      if (next_ != Watch::kNothing) {
        cycle.hooks_ms = costs.structure_ms + (cycle.surveyed ? costs.survey_ms : 0);
        ++counted_;
      }
      if (next_ == Watch::kFull) {
        cycle.values_ms = costs.values_ms;
        cycle.hooks_ms += costs.values_ms;
      }
      cycle.wall_ms += cycle.hooks_ms;
      if (next_ != Watch::kNothing) {
        cycle.wall_ms += costs.unseen_ms;
        unseen_ms_ += costs.unseen_ms;
      }
      next_ = governor.cycle_ended(cycle, may_rest);
    }
    return *this;
  }
  double percent() const {
    return 100 * governor.coverage().hooks_ms / governor.coverage().wall_ms;
  }
  double unseen_percent() const { return 100 * unseen_ms_ / governor.coverage().wall_ms; }

 private:
  Watch next_ = Watch::kFull;
  int counted_ = 0;
  double unseen_ms_ = 0;  // also of the first cycles
};

bool all(const std::vector<Watch>& watched, Watch watch, std::size_t from = 0) {
  return std::all_of(watched.begin() + static_cast<std::ptrdiff_t>(from), watched.end(),
                     [watch](Watch one) { return one == watch; });
}
}  // namespace

TEST_CASE("The first cycles are watched in full whatever they cost", "[governor]") {
  CHECK(all(Run(0.5).cycles(kFull, {.structure_ms = 3, .values_ms = 30}).watched, Watch::kFull));
}

TEST_CASE("What stays within the budget is always watched in full", "[governor]") {
  const Run run = Run(2).cycles(2000, {.structure_ms = 0.045, .values_ms = 0.05});
  CHECK(all(run.watched, Watch::kFull));
  CHECK(run.governor.coverage().longest_values_gap == 0);
}

TEST_CASE("Dear passes over values are made in some cycles, structure is watched in all",
          "[governor]") {
  const Run run = Run(2).cycles(4000, {.structure_ms = 0.05, .values_ms = 0.8});
  const CostGovernor::Coverage& seen = run.governor.coverage();
  CHECK(run.percent() <= 2);
  CHECK(seen.structure == seen.cycles);
  CHECK(seen.full * 20 >= seen.cycles);
  CHECK(seen.longest_values_gap < 32);
}

TEST_CASE("The budget is kept where even the structure costs more than it", "[governor]") {
  for (const double budget : {0.5, 1.0, 2.0, 5.0}) {
    const Costs tiny{.step_ms = 0.1,
                     .structure_ms = 0.006,
                     .values_ms = 0.002,
                     .resting_ms = 0.0001,
                     .survey_ms = 0.1};
    const Run run = Run(budget).cycles(20'000, tiny);
    const CostGovernor::Coverage& seen = run.governor.coverage();
    CAPTURE(budget, seen.structure, seen.longest_gap);
    CHECK(run.percent() <= budget);
    CHECK(run.percent() >= budget / 8);
    CHECK(seen.full == seen.structure);
  }
}

TEST_CASE("Cycles are watched four in a row where hooks rest between them", "[governor]") {
  const Run run = Run(1).cycles(5000, {.step_ms = 1, .structure_ms = 0.1});
  int row = 0;
  bool all_in_fours = true;
  for (std::size_t i = kFull + 200; i < run.watched.size() - 2; ++i) {
    row = run.watched[i] == Watch::kFull ? row + 1 : 0;
    const bool ends = row > 0 && run.watched[i + 1] == Watch::kNothing;
    if (ends && row % 4 != 0) all_in_fours = false;
  }
  CHECK(all_in_fours);
  CHECK(run.governor.coverage().longest_gap > 4);
}

TEST_CASE("Two ranks that rest differently watch common cycles", "[governor]") {
  const Run dear = Run(1).cycles(3000, {.step_ms = 1, .structure_ms = 0.2});
  const Run cheap = Run(1).cycles(3000, {.step_ms = 1, .structure_ms = 0.02});
  REQUIRE(dear.governor.structure_every() > cheap.governor.structure_every());
  for (std::size_t i = 2000; i < 3000; ++i) {
    if (dear.watched[i] == Watch::kFull) CHECK(cheap.watched[i] == Watch::kFull);
  }
}

TEST_CASE("Hooks do not rest where several threads train, passes over values do", "[governor]") {
  const Run run = Run(1).cycles(2000, {.step_ms = 1, .structure_ms = 0.1, .values_ms = 0.1}, false);
  CHECK(run.governor.coverage().structure == run.governor.coverage().cycles);
  CHECK(run.governor.coverage().longest_values_gap > 100);
}

TEST_CASE("A loss that is not finite arms the next cycles, once in 64", "[governor]") {
  Run run(1);
  const Costs costs{.step_ms = 1, .structure_ms = 0.1};
  run.cycles(1000, costs);
  const auto since = run.watched.size() + 1;  // the cycle in progress goes on as it is
  run.governor.arm();
  run.cycles(5, costs);
  CHECK(all(run.watched, Watch::kFull, since));
  run.cycles(20, costs);
  const CostGovernor::Coverage before = run.governor.coverage();
  run.governor.arm();
  run.cycles(16, costs);
  CHECK(run.governor.coverage().structure - before.structure <= 8);
}

TEST_CASE("A loop with an optimizer of its own is watched in full at first, four times",
          "[governor]") {
  Run run(1);
  const Costs costs{.step_ms = 1, .structure_ms = 0.1};
  run.cycles(1000, costs);
  for (int i = 0; i < 4; ++i) {
    const auto since = run.watched.size() + 1;
    run.governor.loop_began();
    run.governor.loop_began();  // of a second optimizer of that loop
    run.cycles(kFull, costs);
    CHECK(all(run.watched, Watch::kFull, since));
  }
  run.cycles(1000, costs);
  const CostGovernor::Coverage before = run.governor.coverage();
  run.governor.loop_began();
  run.cycles(kFull, costs);
  CHECK(run.governor.coverage().structure - before.structure <= kFull / 2);
}

TEST_CASE("The difference between watched cycles and the rest before them is told", "[governor]") {
  CHECK(Run(1).cycles(1000, {.structure_ms = 0.01}).governor.difference().pairs == 0);
  const Run run = Run(1).cycles(5000, {.step_ms = 1, .structure_ms = 0.1, .survey_ms = 3});
  const CostGovernor::Difference told = run.governor.difference();
  CHECK(told.pairs > 20);
  CHECK(told.resting_ms == Approx(1));
  CHECK(told.watched_extra == Approx(0.1).epsilon(0.001));
  CHECK(told.upper == Approx(0.1).epsilon(0.001));
}

TEST_CASE("What watched cycles take longer beside the clock of hooks is part of the budget",
          "[governor]") {
  const Run run = Run(2).cycles(40000, {.structure_ms = 0.3, .values_ms = 0.2, .unseen_ms = 0.9});
  CHECK(run.percent() + run.unseen_percent() <= 2);
  CHECK(run.governor.coverage().structure * 20 >= run.governor.coverage().cycles);
}

TEST_CASE("A few hundred cycles tell what the clock of hooks misses, where they agree",
          "[governor]") {
  const auto every = [](int cycles, double unseen_ms) {
    const Costs costs{.structure_ms = 0.3, .values_ms = 0.2, .unseen_ms = unseen_ms};
    return Run(2).cycles(cycles, costs).governor.structure_every();
  };
  for (const double unseen_ms : {0.0, 0.9}) CHECK(every(150, unseen_ms) == 8);  // 1.5 times it
  CHECK(every(400, 0) == 4);
  CHECK(every(400, 0.9) == 16);  // 2.8 times
}

TEST_CASE("What hooks at rest take beside their clock is part of the budget, at most half of it",
          "[governor]") {
  const auto every = [](double resting_ms) {
    const Costs costs{.structure_ms = 0.5, .resting_ms = resting_ms};
    return Run(2).cycles(1000, costs).governor.structure_every();
  };
  CHECK(every(0) == 4);
  CHECK(every(0.013) == 8);  // 65 us of the 150 that are allowed
  CHECK(every(0.1) == 8);
}

TEST_CASE("A hook in which the thread lost its core does not end the watch", "[governor]") {
  Run run(2);
  const Costs costs{.step_ms = 1, .structure_ms = 0.01};
  run.cycles(1000, costs);
  run.cycles(1, {.step_ms = 1, .structure_ms = 50});
  run.cycles(1000, costs);
  CHECK(run.governor.coverage().longest_gap <= 32);
}

TEST_CASE("Nothing is learnt from a cycle in which hooks were told to rest", "[governor]") {
  const auto rested_once = [](bool cut) {
    CostGovernor governor(2, 1);
    for (int cycle = 0; cycle < 100; ++cycle) {
      if (cut && cycle == 50) governor.cut();
      governor.cycle_ended({.wall_ms = cut && cycle == 50 ? 1e3 : 10.0, .hooks_ms = 0.05}, true);
    }
    return governor;
  };
  const CostGovernor plain = rested_once(false);
  const CostGovernor cut = rested_once(true);
  CHECK(cut.structure_every() == plain.structure_every());
  CHECK(cut.coverage().cycles == plain.coverage().cycles);
  CHECK(cut.coverage().structure == plain.coverage().structure - 1);
  CHECK(cut.coverage().longest_gap == 1);
}

TEST_CASE("A cycle in progress is over the budget by what its hooks are taken to cost",
          "[governor]") {
  const CostGovernor governor(2, 64);
  CHECK(governor.is_over({.wall_ms = 100, .hooks_ms = 1.5}));  // 1.5 times it is 2.25 %
  CHECK_FALSE(governor.is_over({.wall_ms = 100, .hooks_ms = 1.2}));
}

TEST_CASE("A program that grows faster or slower is followed", "[governor]") {
  Run run(2);
  run.cycles(1000, {.step_ms = 100, .structure_ms = 0.1, .values_ms = 0.1});
  CHECK(run.governor.structure_every() == 1);
  run.cycles(4000, {.step_ms = 1, .structure_ms = 0.1, .values_ms = 0.1});
  CHECK(run.governor.structure_every() > 1);
  run.cycles(4000, {.step_ms = 100, .structure_ms = 0.1, .values_ms = 0.1});
  CHECK(run.governor.structure_every() == 1);
  CHECK(run.percent() <= 2);
}
}  // namespace ddpscope
