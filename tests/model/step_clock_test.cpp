#include "model/step_clock.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {
struct Program {
  std::string name;
  std::string
      calls;  ///< b: backward ends, d and g: that optimizer steps, c: one is created, m: mark
  std::string steps;       ///< of each call: the step it belonged to
  std::string cycle_ends;  ///< of each call: `|` if it ended a cycle
};

StepClock::Change play(StepClock& clock, char call) {
  if (call == 'b') return clock.backward_ended();
  if (call == 'm') return clock.marked();
  if (call != 'c') return clock.optimizer_stepped(static_cast<OptimizerId>(call));
  clock.optimizer_created();
  return {};
}
}  // namespace

TEST_CASE("the clock counts steps and cycles of every kind of program", "[step_clock]") {
  const auto program = GENERATE(values<Program>({
      {"one optimizer", "cbdbdbd", "1112233", "..|.|.|"},
      {"one optimizer that nobody announced", "bdbdbd", "122233", "|..|.|"},
      {"no optimizer", "bbb", "123", "|||"},
      {"accumulation of two with a remainder of one", "cbbdbbdbdbbd", "111122233444",
       "...|..|.|..|"},
      {"a closure that runs backward three times", "cbbbdbbbd", "111112222", "....|...|"},
      {"two optimizers, one after the other", "cbdbgbdbg", "111223344", "..|...|.."},
      {"two optimizers that step together", "cbdgbdg", "1112334", "..|..|."},
      {"a GAN with five critic steps", "cbdbdbdbdbdbgbdbdbdbdbdbgbd", "111223344556677889900112233",
       "..|.|.|.|.|...|.........|.."},
      {"a loop, and another with an optimizer of its own", "cbdbdcbgbgbg", "111223334455",
       "..|.|....|.|"},
      {"a loop that a second optimizer joins", "cbdbdcbgbdbgbd", "11122333445566",
       "..|.|....|...|"},
      {"markers, after which optimizers do not count", "bmbdmbd", "1222233", "|...|.."},
  }));
  REQUIRE(program.cycle_ends.size() == program.calls.size());
  StepClock clock;
  std::string ends;
  std::string steps;
  for (const char call : program.calls) {
    steps += static_cast<char>('0' + clock.step() % 10);
    ends += play(clock, call).cycle_ended ? '|' : '.';
  }
  INFO(program.name);
  CHECK(steps == program.steps);
  CHECK(ends == program.cycle_ends);
}

TEST_CASE("backward calls count once an announced optimizer has not stepped for long",
          "[step_clock]") {
  StepClock clock;
  clock.optimizer_created();
  for (int i = 0; i < 64; ++i) CHECK_FALSE(clock.backward_ended().step_ended);
  CHECK(clock.backward_ended().step_ended);
}

TEST_CASE("backward calls count once an announced optimizer has only cleared gradients",
          "[step_clock]") {
  StepClock clock;
  clock.optimizer_created();
  clock.gradients_cleared();  // before any
  for (int i = 0; i < 8; ++i) {
    CHECK_FALSE(clock.backward_ended().step_ended);
    clock.gradients_cleared();
    clock.gradients_cleared();  // once more, in vain
  }
  SECTION("eight times") { CHECK(clock.backward_ended().step_ended); }
  SECTION("but not once one stepped") {
    clock.optimizer_stepped(1);
    CHECK_FALSE(clock.backward_ended().step_ended);
  }
}

TEST_CASE("a backward before the first optimizer is no part of its first step", "[step_clock]") {
  StepClock clock;
  CHECK(clock.backward_ended().step_ended);  // as to look at gradients
  clock.optimizer_created();
  CHECK_FALSE(clock.backward_ended().step_ended);
  CHECK(clock.optimizer_stepped(1).step_ended);
  CHECK(clock.step() == 3);
}

TEST_CASE("an optimizer that did not step for 32 optimizer steps leaves the cycle",
          "[step_clock]") {
  StepClock clock;
  clock.optimizer_stepped(1);
  clock.optimizer_stepped(2);
  for (int i = 0; i < 31; ++i) CHECK(clock.optimizer_stepped(1).cycle_ended == (i == 0));
  CHECK(clock.optimizer_stepped(1).cycle_ended);
}
TEST_CASE("optimizers that are built anew in each iteration are of one cycle", "[step_clock]") {
  const auto count = GENERATE(1, 2, 6, 40);
  const bool are_known = GENERATE(true, false);  // what they hold
  StepClock clock;
  OptimizerId last = 0;
  std::int64_t cycles = 0;
  for (int iteration = 0; iteration < 50; ++iteration) {
    for (int i = 1; i <= count; ++i) {
      clock.optimizer_created();
      clock.backward_ended();
      const auto member = static_cast<std::uintptr_t>(are_known ? i : 0);
      cycles += clock.optimizer_stepped(++last, member).cycle_ended;
    }
    if (are_known) CHECK(cycles == iteration + 1);  // of the first iteration, that of one alone
  }
  CHECK((cycles == 1) != are_known);
}

TEST_CASE("an optimizer that another one follows for the same parameters may step again",
          "[step_clock]") {
  StepClock clock;
  clock.optimizer_created();
  for (int i = 0; i < 3; ++i) CHECK(clock.optimizer_stepped(1, 7).cycle_ended);
  clock.optimizer_created();
  CHECK(clock.optimizer_stepped(2, 7).cycle_ended);
  CHECK(clock.optimizer_stepped(1, 7).step_ended);
  for (int i = 0; i < 4; ++i) {
    CHECK(clock.optimizer_stepped(2, 7).cycle_ended);
    CHECK_FALSE(clock.optimizer_stepped(1, 7).cycle_ended);
  }
}

TEST_CASE("a cycle has a step of each optimizer, however many there are", "[step_clock]") {
  const auto count = GENERATE(31, 32, 33, 100, 400);
  StepClock clock;
  clock.optimizer_created();
  const auto iterate = [&](int optimizers) {
    std::int64_t cycles = 0;
    clock.backward_ended();
    for (int i = 1; i <= optimizers; ++i) {
      cycles += clock.optimizer_stepped(static_cast<OptimizerId>(i)).cycle_ended;
    }
    return cycles;
  };
  CHECK(iterate(count) == 1);  // of the first one, alone
  for (int i = 0; i < 5; ++i) CHECK(iterate(count) == 1);
  // Those that step no more are forgotten.
  for (int i = 0; i < 1000; ++i) iterate(2);
  CHECK(iterate(2) == 1);
}

}  // namespace ddpscope
