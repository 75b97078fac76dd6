#include "stacks/stack_table.h"

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {

std::vector<void*> stack_of(std::uintptr_t begin, std::size_t count) {
  std::vector<void*> frames;
  for (std::size_t i = 0; i < count; ++i) {
    frames.push_back(reinterpret_cast<void*>(begin * 0x1000 + i * 16));
  }
  return frames;
}

bool same(std::span<void* const> left, const std::vector<void*>& right) {
  return std::ranges::equal(left, right);
}

}  // namespace

TEST_CASE("A stack has one id, and other stacks have others", "[stacks]") {
  StackTable table;
  std::set<StackId> ids;
  for (std::size_t count = 1; count <= 40; ++count) {
    for (std::uintptr_t begin = 1; begin <= 50; ++begin) {
      const StackId id = table.intern(stack_of(begin, count));
      CHECK(id != 0);
      CHECK(same(table.frames(id), stack_of(begin, count)));
      CHECK(table.intern(stack_of(begin, count)) == id);
      ids.insert(id);
    }
  }
  CHECK(ids.size() == 2000);
  CHECK(table.size() == 2000);
  CHECK(table.evicted() == 0);
}

TEST_CASE("Stacks that differ in the order of their frames only are two", "[stacks]") {
  StackTable table;
  std::vector<void*> frames = stack_of(7, 12);
  const StackId id = table.intern(frames);
  std::swap(frames[0], frames[4]);
  CHECK(table.intern(frames) != id);
}

TEST_CASE("A full table keeps what it has and counts the rest", "[stacks]") {
  StackTable table({.stacks = 10, .frames_per_stack = 4});
  SECTION("when it has its number of stacks") {
    for (std::uintptr_t begin = 1; begin <= 10; ++begin) {
      CHECK(table.intern(stack_of(begin, 1)) != 0);
    }
    CHECK(table.intern(stack_of(11, 1)) == 0);
    CHECK(table.evicted() == 1);
    CHECK(table.intern(stack_of(3, 1)) != 0);
  }
  SECTION("when it has its number of frames") {
    CHECK(table.intern(stack_of(1, 48)) != 0);
    CHECK(table.intern(stack_of(2, 48)) == 0);
    CHECK(table.intern(stack_of(2, 48)) == 0);
    CHECK(table.evicted() == 2);
    CHECK(table.size() == 1);
    CHECK(same(table.frames(table.intern(stack_of(1, 48))), stack_of(1, 48)));
  }
}

TEST_CASE("No frames are no stack", "[stacks]") {
  StackTable table;
  CHECK(table.intern({}) == 0);
  CHECK(table.evicted() == 0);
  CHECK(table.frames(0).empty());
}

TEST_CASE("Threads agree on the ids of the stacks that they bring at the same time", "[stacks]") {
  constexpr std::uintptr_t kStacks = 3000;
  StackTable table({.stacks = 1 << 14, .frames_per_stack = 24});
  std::vector<std::vector<StackId>> ids(4);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < ids.size(); ++thread) {
    threads.emplace_back([&table, &mine = ids[thread], thread] {
      for (std::uintptr_t begin = 1; begin <= kStacks; ++begin) {
        mine.push_back(table.intern(stack_of(begin, begin % 30 + 1)));
        const auto own = stack_of(begin + (thread + 1) * 100000, 5);
        if (begin % 50 == 0 && !same(table.frames(table.intern(own)), own)) mine.push_back(0);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& other : ids) CHECK(other == ids[0]);
  CHECK(std::set<StackId>(ids[0].begin(), ids[0].end()).size() == kStacks);
  CHECK(table.evicted() == 0);
  CHECK(table.size() == kStacks + ids.size() * kStacks / 50);
}

}  // namespace ddpscope
