#include "model/open_calls.h"

#include <array>
#include <atomic>
#include <thread>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {
const int works[4] = {};

CallRecord call(std::uint64_t seq, CollectiveKind kind = CollectiveKind::kAllReduce) {
  return {.seq = seq, .group = 1, .kind = kind};
}

TEST_CASE("the oldest call that is under way is told until it ends", "[model]") {
  OpenCalls calls;
  CHECK_FALSE(calls.oldest());
  const auto first = calls.issued(10, call(1));
  calls.returned(first, &works[0]);
  const auto second = calls.issued(11, call(2));
  calls.returned(second, &works[1]);
  REQUIRE(calls.oldest());
  CHECK(calls.oldest()->record.seq == 1);
  CHECK(calls.oldest()->place == 10);
  CHECK(calls.ended(&works[0])->place == 10);
  CHECK(calls.oldest()->record.seq == 2);
  CHECK(calls.ended(second)->place == 11);
  CHECK_FALSE(calls.oldest());
}

TEST_CASE("a call whose address is used again is the later one", "[model]") {
  OpenCalls calls;
  calls.returned(calls.issued(1, call(1)), &works[0]);
  calls.ended(&works[0]);
  calls.returned(calls.issued(2, call(2)), &works[0]);
  CHECK(calls.ended(&works[0])->place == 2);
}

TEST_CASE("a work that is no call of ours is none", "[model]") {
  OpenCalls calls;
  calls.returned(calls.issued(1, call(1)), nullptr);
  CHECK_FALSE(calls.ended(&works[0]));
  CHECK_FALSE(calls.ended(static_cast<const void*>(nullptr)));
  CHECK_FALSE(calls.wait_began(&works[0]));
  CHECK_FALSE(calls.ended(std::uint64_t{7}));
}

TEST_CASE("an end that is told before the call has its work is the call's", "[model]") {
  OpenCalls calls;
  const auto failed = GENERATE(false, true);
  calls.backend_ended(&works[0], true);  // of another call, long ago
  const auto first = calls.issued(1, call(1));
  CHECK_FALSE(calls.returned(first, &works[0]).has_value());
  const auto second = calls.issued(2, call(2));
  CHECK_FALSE(calls.backend_ended(&works[1], failed));
  CHECK(calls.returned(second, &works[1]) == failed);
  CHECK(calls.ended(second)->place == 2);
  CHECK(calls.backend_ended(&works[0], failed)->place == 1);
}

TEST_CASE("an end is the call's also where other ends were told since", "[model]") {
  OpenCalls calls;
  const auto number = calls.issued(1, call(1));
  calls.backend_ended(&works[1], true);
  for (int i = 0; i < 15; ++i) calls.backend_ended(&works[0], false);
  CHECK(calls.returned(number, &works[1]) == true);
}

TEST_CASE("somebody waits from the issue to the return, and in each wait", "[model]") {
  OpenCalls calls;
  const auto number = calls.issued(1, call(1));
  CHECK(calls.oldest()->waiting == 1);
  calls.returned(number, &works[0]);
  CHECK(calls.oldest()->waiting == 0);
  CHECK(calls.wait_began(&works[0]) == number);
  CHECK(calls.oldest()->waiting == 1);
  CHECK(calls.wait_ended(number)->waiting == 1);
  CHECK_FALSE(calls.oldest());
  CHECK(calls.wait_ended(number)->waiting == 0);
}

TEST_CASE("a call of which two threads wait has ended when the first of them knows", "[model]") {
  OpenCalls calls;
  const auto number = calls.issued(1, call(1));
  calls.returned(number, &works[0]);
  calls.wait_began(&works[0]);
  calls.wait_began(&works[0]);
  CHECK_FALSE(calls.wait_ended(number)->ended);
  CHECK(calls.wait_ended(number)->ended);
  CHECK(calls.progress() == 2);
}

TEST_CASE("a wait is of its call also where the address was given on", "[model]") {
  OpenCalls calls;
  calls.returned(calls.issued(1, call(1)), &works[0]);
  const auto first = calls.wait_began(&works[0]);
  calls.returned(calls.issued(2, call(2)), &works[0]);
  CHECK(calls.wait_ended(first)->place == 1);
  CHECK(calls.oldest()->place == 2);
}

TEST_CASE("a message is under way while somebody waits for it", "[model]") {
  OpenCalls calls;
  const auto kind = GENERATE(CollectiveKind::kSend, CollectiveKind::kReceive);
  calls.returned(calls.issued(1, call(1, kind)), &works[0]);
  CHECK_FALSE(calls.oldest());
  calls.wait_began(&works[0]);
  CHECK(calls.oldest());
}

TEST_CASE("calls that nobody ends give way to later ones", "[model]") {
  OpenCalls calls;
  for (std::uint64_t i = 1; i <= 1000; ++i) calls.returned(calls.issued(i, call(i)), &works[1]);
  CHECK(calls.oldest()->record.seq == 745);
  CHECK_FALSE(calls.ended(std::uint64_t{1}));
  CHECK(calls.progress() == 1000);
}

TEST_CASE("calls are watched while threads issue and end them", "[model]") {
  OpenCalls calls;
  std::atomic<bool> done = false;
  std::atomic<bool> torn = false;
  std::array<std::atomic<std::uint64_t>, 2> made{};
  const auto train = [&](std::size_t self) {
    for (std::uint64_t i = 1; i <= 20'000; ++i) {
      // One that is far ahead would make a call of the other give way before it ends.
      while (i > made[1 - self] + 100) std::this_thread::yield();
      // The same number in all places: a torn read would show.
      const auto number = calls.issued(i, {.seq = i, .group = self + 1, .elements = i});
      calls.returned(number, &works[self]);
      calls.ended(number);
      made[self] = i;
    }
  };
  std::thread first(train, 0);
  std::thread second(train, 1);
  std::thread watcher([&] {
    while (!done) {
      const auto oldest = calls.oldest();
      if (!oldest) continue;
      const bool whole =
          oldest->place == oldest->record.seq && oldest->place == oldest->record.elements;
      if (!whole) torn = true;
      static_cast<void>(calls.median_ns());
    }
  });
  first.join();
  second.join();
  done = true;
  watcher.join();
  CHECK_FALSE(torn);
  CHECK(calls.progress() == 80'000);
  CHECK_FALSE(calls.oldest());
}

TEST_CASE("the median is of the calls that ended", "[model]") {
  OpenCalls calls;
  CHECK(calls.median_ns() == 0);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto number = calls.issued(i, call(i));
    if (i == 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    calls.ended(number);
    calls.ended(number);  // told twice, it ended once
  }
  CHECK(calls.progress() == 6);
  CHECK(calls.median_ns() < 10'000'000);
}

}  // namespace
}  // namespace ddpscope
