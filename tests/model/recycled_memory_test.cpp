#include "model/recycled_memory.h"

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace ddpscope::test {
namespace {
struct Thing {
  std::array<std::uint64_t, 9> words = {};
};
struct Other : Thing {};
}  // namespace

TEST_CASE("What was given back last is taken first, and it is aligned", "[recycled_memory]") {
  void* const first = RecycledMemory<Thing>::take();
  void* const second = RecycledMemory<Thing>::take();
  CHECK(first != second);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  RecycledMemory<Thing>::give_back(first);
  CHECK(RecycledMemory<Thing>::take() == first);
  RecycledMemory<Thing>::give_back(second);
  RecycledMemory<Thing>::give_back(first);
}

TEST_CASE("More than there are blocks come from the heap and go back there", "[recycled_memory]") {
  std::vector<void*> taken;
  for (int i = 0; i < 100; ++i) {
    taken.push_back(RecycledMemory<Other>::take());
    std::fill_n(static_cast<char*>(taken.back()), sizeof(Other), static_cast<char>(i));
  }
  CHECK(std::set<void*>(taken.begin(), taken.end()).size() == taken.size());
  for (int i = 0; i < 100; ++i) {
    CHECK(static_cast<char*>(taken[static_cast<std::size_t>(i)])[sizeof(Other) - 1] == i);
  }
  for (void* const memory : taken) RecycledMemory<Other>::give_back(memory);
  std::vector<void*> again;
  for (int i = 0; i < 64; ++i) again.push_back(RecycledMemory<Other>::take());
  for (void* const memory : again) CHECK(std::ranges::count(taken, memory) == 1);
  for (void* const memory : again) RecycledMemory<Other>::give_back(memory);
}

TEST_CASE("Threads never hold the same block", "[recycled_memory]") {
  std::atomic<int> shared{0};
  const auto use = [&shared](std::uint64_t mark) {
    for (int i = 0; i < 20'000; ++i) {
      auto* const thing = ::new (RecycledMemory<Thing>::take()) Thing;
      thing->words.fill(mark);
      if (i % 64 == 0) std::this_thread::yield();
      const bool is_own =
          std::ranges::all_of(thing->words, [mark](std::uint64_t word) { return word == mark; });
      if (!is_own) ++shared;
      RecycledMemory<Thing>::give_back(thing);
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t mark = 1; mark <= 4; ++mark) threads.emplace_back(use, mark);
  for (std::thread& thread : threads) thread.join();
  CHECK(shared == 0);
}

}  // namespace ddpscope::test
