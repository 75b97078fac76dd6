// Steps that one rank makes alone while the ranks train.
#include "exchange/own_steps.h"

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::own_steps_test {
namespace {
struct How {
  std::size_t rank = 0;                ///< that makes them
  std::uint64_t parameters_after = 7;  ///< of the rank, when its next step begins
  std::int32_t calls_in_them = 0;
  bool trains = true;
  bool has_new_optimizer = false;  ///< that makes them
};

/// Both ranks average in each of six steps; one makes three of its own after the second.
std::optional<OwnSteps> found(const How& how) {
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::int64_t number = 0;
    std::int32_t calls = 0;
    std::int32_t backwards = 0;
    std::int32_t groups = 1;
    const auto step = [&](std::int32_t own_calls, std::uint64_t parameters) {
      calls += own_calls;
      backwards += own_calls > 0 || how.trains;
      run[rank].digest({.step = ++number,
                        .parameters = parameters,
                        .backwards = backwards,
                        .call_count = calls,
                        .groups = groups});
    };
    for (std::uint64_t shared = 5; shared < 11; ++shared) {
      const bool is_after = shared == 7 && rank == how.rank;
      if (is_after && how.has_new_optimizer) ++groups;
      for (int i = 0; is_after && i < 3; ++i) step(how.calls_in_them, shared);
      step(1, is_after ? how.parameters_after : shared);
    }
  }
  const RingSet set = open_rings(list_rings(run.dir()), "r1");
  return first_own_steps({set.rings.data(), set.rings.data() + 1});
}
}  // namespace

TEST_CASE("steps without calls that leave the parameters as those of the others are a rank's own",
          "[compare]") {
  const std::size_t rank = GENERATE(0, 1);
  const auto own = found({.rank = rank});
  REQUIRE(own.has_value());
  CHECK(own->rank == static_cast<std::int64_t>(rank));
  CHECK(own->step == 3);
}

TEST_CASE("steps that leave other parameters are compared", "[compare]") {
  CHECK_FALSE(found({.parameters_after = 99}).has_value());
  CHECK_FALSE(found({.parameters_after = 0}).has_value());  // not known
  CHECK_FALSE(found({.parameters_after = 99, .has_new_optimizer = true}).has_value());
}

TEST_CASE("first steps of an optimizer that no other rank has are a rank's own", "[compare]") {
  const auto own = found({.parameters_after = 0, .has_new_optimizer = true});
  REQUIRE(own.has_value());
  CHECK(own->step == 3);
}

TEST_CASE("steps without a backward are compared", "[compare]") {
  CHECK_FALSE(found({.trains = false}).has_value());
}

TEST_CASE("steps with calls are compared", "[compare]") {
  CHECK_FALSE(found({.calls_in_them = 1}).has_value());
}

}  // namespace ddpscope::test::own_steps_test
