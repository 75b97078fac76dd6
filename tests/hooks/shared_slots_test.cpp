#include "hooks/shared_slots.h"

#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {
using Record = std::array<std::uint64_t, 8>;

Record record_of(std::uint64_t key) {
  Record record;
  record.fill(key);
  return record;
}

TEST_CASE("A record is found by its key alone, until another takes its place") {
  SharedSlots<Record> slots(4);
  slots.put(1, 7, record_of(7));
  CHECK(slots.has(1, 7));
  CHECK(slots.find(1, 7) == record_of(7));
  CHECK_FALSE(slots.find(1, 8).has_value());
  CHECK_FALSE(slots.find(2, 7).has_value());
  slots.put(5, 8, record_of(8));
  CHECK_FALSE(slots.find(1, 7).has_value());
  CHECK(slots.find(1, 8) == record_of(8));
}

TEST_CASE("What several threads put at one place is never half of each") {
  constexpr std::uint64_t kThreads = 4;
  constexpr int kPuts = 200'000;
  SharedSlots<Record> slots(1);
  std::atomic<int> mixed = 0;
  const auto put_and_look = [&](std::uint64_t key) {
    for (int i = 0; i < kPuts; ++i) {
      slots.put(0, key, record_of(key));
      for (std::uint64_t other = 1; other <= kThreads; ++other) {
        const auto found = slots.find(0, other);
        if (found.has_value() && *found != record_of(other)) ++mixed;
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t key = 1; key <= kThreads; ++key) threads.emplace_back(put_and_look, key);
  for (std::thread& thread : threads) thread.join();
  CHECK(mixed == 0);
}
}  // namespace
}  // namespace ddpscope
