#include "plugin/skipped_steps.h"

#include "tests/support/catch.h"

namespace ddpscope::test {

TEST_CASE("Backwards that lead to no collectives are no skipped steps of ranks that average",
          "[skipped_steps]") {
  SkippedSteps skipped;
  const auto after = [&skipped](std::int32_t backwards, std::int32_t calls) {
    skipped.step_ended({.backwards = backwards, .calls = calls, .averages = true});
    return skipped.count();
  };
  for (const std::int32_t calls : {4, 4, 5}) CHECK(after(1, calls) == 0);
  CHECK(after(4, 4) == 0);
  CHECK(after(4, 9) == 0);
  CHECK(after(2, 10) == 1);
  CHECK(after(1, 4) == 1);
  CHECK(after(3, 15) == 3);
}

TEST_CASE("A step that a rank repeats is one less that was skipped", "[skipped_steps]") {
  SkippedSteps skipped;
  const auto after = [&skipped](std::int32_t backwards, std::int32_t calls, bool averages = true) {
    skipped.step_ended({.backwards = backwards, .calls = calls, .averages = averages});
    return skipped.count();
  };
  SECTION("once their number is known") {
    for (int i = 0; i < 3; ++i) CHECK(after(2, 4) == 0);
    CHECK(after(0, 0) == -1);
    CHECK(after(2, 4) == -1);
    CHECK(after(4, 8) == 0);
  }
  SECTION("but not where it averages with others") {
    for (int i = 0; i < 3; ++i) CHECK(after(2, 4) == 0);
    CHECK(after(0, 4) == 0);
  }
  SECTION("nor where others have a call more, as for a flag at the end of an epoch") {
    for (const std::int32_t calls : {5, 4, 4}) CHECK(after(2, calls) == 0);
    CHECK(after(0, 4) == 0);
    CHECK(after(0, 3) == -1);
  }
  SECTION("nor where nobody averages") {
    for (int i = 0; i < 3; ++i) CHECK(after(2, 0, false) == 0);
    CHECK(after(0, 0, false) == 0);
  }
  SECTION("nor of two optimizers that step in turn") {
    for (const std::int32_t backwards : {1, 0, 1, 0, 1, 0}) {
      CHECK(after(backwards, 4 * backwards) == 0);
    }
  }
}

TEST_CASE("Steps skipped before their number is known are counted once it is", "[skipped_steps]") {
  SkippedSteps skipped;
  const auto after = [&skipped](std::int32_t backwards) {
    skipped.step_ended({.backwards = backwards});
    return skipped.count();
  };
  SECTION("the first ones") {
    for (const std::int32_t backwards : {3, 1, 1}) CHECK(after(backwards) == 0);
    CHECK(after(1) == 2);
    CHECK(after(1) == 2);
    CHECK(after(2) == 3);
  }
  SECTION("the second one") {
    for (const std::int32_t backwards : {1, 2, 1, 1}) CHECK(after(backwards) == 0);
    CHECK(after(1) == 1);
  }
  SECTION("two in a row") {
    for (const std::int32_t backwards : {2, 2, 1, 1}) CHECK(after(backwards) == 0);
    CHECK(after(1) == 2);
  }
  SECTION("of several backwards each") {
    for (const std::int32_t backwards : {8, 4, 4}) CHECK(after(backwards) == 0);
    CHECK(after(4) == 1);
  }
  SECTION("not where the number is no part of theirs") {
    for (const std::int32_t backwards : {3, 2, 2, 2}) CHECK(after(backwards) == 0);
  }
}

}  // namespace ddpscope::test
