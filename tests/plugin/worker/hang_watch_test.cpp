#include "plugin/hang_watch.h"

#include "model/clock.h"
#include "tests/support/catch.h"

namespace ddpscope::test::hang_watch_test {
namespace {
constexpr std::int64_t kSecond = 1'000'000'000;
const int work = 0;

/// A call that the program has left without waiting for it.
void leave_call(OpenCalls& calls, std::uint64_t seq) {
  calls.returned(calls.issued(seq, {.seq = seq}), &work);
}

TEST_CASE("a call that somebody waits in is told once it took longer than allowed", "[hang]") {
  OpenCalls calls;
  HangWatch watch(2 * kSecond);
  const std::int64_t begin = steady_ns();
  leave_call(calls, 1);
  calls.wait_began(&work);
  CHECK_FALSE(watch.look(calls, 1, begin + kSecond));
  const auto stall = watch.look(calls, 2, begin + 3 * kSecond);
  REQUIRE(stall);
  CHECK(stall->call.record.seq == 1);
  CHECK(stall->waited_ns > 2 * kSecond);
  CHECK_FALSE(watch.look(calls, 2, begin + 4 * kSecond));
  CHECK(watch.look(calls, 2, begin + 7 * kSecond));  // its age has doubled
  CHECK_FALSE(watch.look(calls, 2, begin + 13 * kSecond));
  CHECK(watch.look(calls, 2, begin + 15 * kSecond));

  calls.ended(&work);
  leave_call(calls, 2);
  calls.wait_began(&work);
  CHECK(watch.look(calls, 3, steady_ns() + 3 * kSecond)->call.record.seq == 2);
}

TEST_CASE("a call that nobody waits in is told where nothing else happens", "[hang]") {
  OpenCalls calls;
  HangWatch watch(2 * kSecond);
  const std::int64_t begin = steady_ns();
  leave_call(calls, 1);
  for (std::uint64_t i = 0; i < 10; ++i) {  // it trains on
    CHECK_FALSE(watch.look(calls, i, begin + static_cast<std::int64_t>(i) * kSecond));
  }
  CHECK_FALSE(watch.look(calls, 9, begin + 11 * kSecond));
  CHECK(watch.look(calls, 9, begin + 12 * kSecond));
}

TEST_CASE("no call under way is no hang, however long nothing happens", "[hang]") {
  OpenCalls calls;
  HangWatch watch(kSecond);
  leave_call(calls, 1);
  calls.ended(&work);
  CHECK_FALSE(watch.look(calls, 1, steady_ns()));
  CHECK_FALSE(watch.look(calls, 1, steady_ns() + 3600 * kSecond));
}

TEST_CASE("where calls are slow, a hang is five times the median", "[hang]") {
  OpenCalls calls;
  HangWatch watch(1);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto number = calls.issued(i, {.seq = i});
    const std::int64_t until = steady_ns() + 20'000'000;
    while (steady_ns() < until) {
    }
    calls.ended(number);
  }
  const std::int64_t begin = steady_ns();
  calls.issued(4, {.seq = 4});
  CHECK_FALSE(watch.look(calls, 1, begin + 90'000'000));
  CHECK(watch.look(calls, 1, begin + 2 * kSecond));
}

}  // namespace
}  // namespace ddpscope::test::hang_watch_test
