#include "plugin/event_queue.h"

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace ddpscope::test::event_queue_test {
namespace {

Event event_of(std::uint64_t thread, std::int64_t step) {
  auto event = std::make_unique<OpEvent>();
  event->at = {.step = step, .thread = thread};
  return event;
}

Stamp stamp_of(const Event& event) { return std::get<std::unique_ptr<OpEvent>>(event)->at; }

TEST_CASE("The queue gives events back in the order in which they were put", "[queue]") {
  EventQueue queue(8);
  for (std::int64_t step = 1; step <= 5; ++step) queue.put(event_of(1, step));
  Event event;
  for (std::int64_t step = 1; step <= 5; ++step) {
    REQUIRE(queue.take(event));
    CHECK(stamp_of(event).step == step);
  }
  CHECK_FALSE(queue.take(event));
  CHECK(queue.dropped() == 0);
  CHECK(queue.put_count() == 5);
  CHECK(queue.taken_count() == 5);
}

TEST_CASE("A full queue gives up the oldest events and counts them", "[queue]") {
  EventQueue queue(4);
  for (std::int64_t step = 1; step <= 10; ++step) queue.put(event_of(1, step));
  CHECK(queue.dropped() == 6);
  Event event;
  REQUIRE(queue.take(event));
  CHECK(stamp_of(event).step == 7);
}

TEST_CASE("A full queue gives up no tree, no end of one and no list of members", "[queue]") {
  EventQueue queue(4);
  const auto put_tree = [&queue](ModelId model, std::int64_t step) {
    auto tree = std::make_unique<TreeEvent>();
    tree->at.step = step;
    tree->model = model;
    queue.put(std::move(tree));
  };
  const auto put_members = [&queue](OptimizerId optimizer, std::int64_t step) {
    auto members = std::make_unique<OptimizerMembersEvent>();
    members->at.step = step;
    members->optimizer = optimizer;
    queue.put(std::move(members));
  };
  put_tree(1, 1);
  put_members(7, 1);
  put_tree(1, 2);  // says all that the first said
  put_members(7, 2);
  put_tree(2, 2);
  queue.put(TreeEndEvent{.model = 1});
  for (std::int64_t step = 3; step <= 10; ++step) queue.put(event_of(1, step));
  CHECK(queue.dropped() == 4);
  Event event;
  REQUIRE(queue.take(event));
  CHECK(std::get<std::unique_ptr<OptimizerMembersEvent>>(event)->at.step == 2);
  REQUIRE(queue.take(event));
  CHECK(std::get<std::unique_ptr<TreeEvent>>(event)->model == 2);
  REQUIRE(queue.take(event));
  CHECK(std::get<TreeEndEvent>(event).model == 1);
  REQUIRE(queue.take(event));
  CHECK(stamp_of(event).step == 7);
}

TEST_CASE("Each event of several threads is taken once and in order, or counted", "[queue]") {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::int64_t kEach = 5000;
  const std::size_t capacity = GENERATE(4, 64, 65536);
  EventQueue queue(capacity);
  std::atomic<std::uint64_t> done{0};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&queue, &done, thread] {
      for (std::int64_t step = 1; step <= kEach; ++step) queue.put(event_of(thread, step));
      ++done;
    });
  }
  std::map<std::uint64_t, std::int64_t> last;
  std::int64_t taken = 0;
  bool in_order = true;
  Event event;
  for (bool all_put = false; !all_put;) {
    all_put = done == kThreads;
    while (queue.take(event)) {
      const Stamp at = stamp_of(event);
      in_order = in_order && at.step > last[at.thread];
      last[at.thread] = at.step;
      ++taken;
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(in_order);
  CHECK(taken + queue.dropped() == kThreads * kEach);
  CHECK((capacity < 65536 || queue.dropped() == 0));
}

}  // namespace
}  // namespace ddpscope::test::event_queue_test
