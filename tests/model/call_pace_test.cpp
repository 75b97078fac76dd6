#include "model/call_pace.h"

#include "tests/support/catch.h"

namespace ddpscope::test {
namespace {
/// How many cycles without calls it takes until they count as stopped; 0: never.
int stops_after(CallPace& pace) {
  for (int i = 1; i <= 1000; ++i) {
    if (pace.stops(0)) return i;
  }
  return 0;
}

void train(CallPace& pace, int cycles, int period) {
  for (int i = 0; i < cycles; ++i) CHECK_FALSE(pace.stops(i % period == 0 ? 2 : 0));
  CHECK_FALSE(pace.stops(2));
}
}  // namespace

TEST_CASE("calls of each cycle stop with the third without them", "[call_pace]") {
  CallPace pace;
  train(pace, 10, 1);
  CHECK(stops_after(pace) == 3);
  CHECK(stops_after(pace) == 0);  // told once
}

TEST_CASE("calls of every few cycles have not stopped between them", "[call_pace]") {
  CallPace pace;
  train(pace, 9, 3);
  CHECK(stops_after(pace) == 7);
}

TEST_CASE("what never called has not stopped", "[call_pace]") {
  CallPace pace;
  CHECK(stops_after(pace) == 0);
}

}  // namespace ddpscope::test
