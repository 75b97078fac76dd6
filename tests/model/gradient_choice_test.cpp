#include "model/gradient_choice.h"

#include <algorithm>
#include <set>

#include "tests/support/catch.h"

namespace ddpscope::test {
namespace {
std::set<std::size_t> places_in(const std::vector<ChosenGradient>& chosen) {
  std::set<std::size_t> places;
  for (const ChosenGradient& one : chosen) places.insert(one.index);
  return places;
}
}  // namespace

TEST_CASE("Of a small model every gradient is chosen, whole", "[gradient_choice]") {
  const auto chosen = choose_gradients({4, 0, 1000000}, 7);
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].index == 0);
  CHECK(chosen[0].elements == 4);
  CHECK(chosen[1].index == 2);
  CHECK(chosen[1].elements == 1000000);
}

TEST_CASE("The first, the last and the largest are always chosen, and the others in turn",
          "[gradient_choice]") {
  std::vector<std::int64_t> elements(100, 10);
  elements[41] = 11;
  std::set<std::size_t> seen;
  for (std::int64_t step = 1; step <= 10; ++step) {
    const auto chosen = choose_gradients(elements, step);
    CHECK(chosen.size() == 16);
    const auto places = places_in(chosen);
    CHECK(places.size() == 16);
    for (const std::size_t place : {0, 41, 99}) CHECK(places.contains(place));
    seen.insert(places.begin(), places.end());
  }
  CHECK(seen.size() == 100);
}

TEST_CASE("No more elements are read than a step can afford", "[gradient_choice]") {
  const auto chosen = choose_gradients({3'000'000, 3'000'000, 3'000'000}, 1);
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].elements == 3'000'000);
  CHECK(chosen[1].elements == (1 << 22) - 3'000'000);
}

TEST_CASE("A model without gradients has none to choose", "[gradient_choice]") {
  CHECK(choose_gradients({}, 1).empty());
}

}  // namespace ddpscope::test
