#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "cuda/kernel.cuh"

namespace ddpscope::cuda {
namespace emulated {

Index thread, block, grid;

namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kWords = 16;

/// Threads that go on when all of them have come.
struct Barrier {
  int members = 0, arrived = 0;
  long generation = 0;
};

struct Fiber {
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
  ucontext_t entry = {};
  jmp_buf place = {};
  bool is_started = false, is_done = false;
};

struct Block {
  std::array<Fiber, kThreads> fibers;
  std::array<Barrier, kWarps> warps;
  Barrier all;
  std::array<std::array<std::uint64_t, kWords>, kThreads> words;
  ucontext_t scheduler_entry = {};
  jmp_buf scheduler = {};
  const std::function<void()>* body = nullptr;
  bool has_moved = false;  // some thread since all were asked last
};

Block& the_block() {
  static auto* const leaked = new Block;
  return *leaked;
}

void run_fiber() {
  Block& now = the_block();
  (*now.body)();
  now.fibers[thread.x].is_done = true;
  _longjmp(now.scheduler, 1);
}

void yield() {
  Block& now = the_block();
  if (_setjmp(now.fibers[thread.x].place) == 0) _longjmp(now.scheduler, 1);
}

void wait_at(Barrier& barrier) {
  Block& now = the_block();
  const long generation = barrier.generation;
  now.has_moved = true;
  if (++barrier.arrived == barrier.members) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  while (barrier.generation == generation) yield();
}

void resume(unsigned index) {
  Block& now = the_block();
  thread.x = index;
  Fiber& fiber = now.fibers[index];
  if (_setjmp(now.scheduler) != 0) return;
  if (fiber.is_started) _longjmp(fiber.place, 1);
  fiber.is_started = true;
  now.has_moved = true;
  setcontext(&fiber.entry);
}

void begin_block(const std::function<void()>& body) {
  Block& now = the_block();
  now.body = &body;
  now.all = {.members = kThreads};
  for (Barrier& warp : now.warps) warp = {.members = kWarp};
  for (Fiber& fiber : now.fibers) {
    fiber.is_started = fiber.is_done = false;
    getcontext(&fiber.entry);
    fiber.entry.uc_stack.ss_sp = fiber.stack.get();
    fiber.entry.uc_stack.ss_size = kStackBytes;
    fiber.entry.uc_link = nullptr;
    makecontext(&fiber.entry, run_fiber, 0);
  }
}

void run_block(const std::function<void()>& body) {
  begin_block(body);
  Block& now = the_block();
  for (int done = 0; done < kThreads;) {
    now.has_moved = false;
    done = 0;
    for (unsigned i = 0; i < kThreads; ++i) {
      if (!now.fibers[i].is_done) resume(i);
      done += now.fibers[i].is_done ? 1 : 0;
    }
    if (done == kThreads || now.has_moved) continue;
    std::fputs("threads of a block wait at different barriers\n", stderr);
    std::abort();
  }
  if (now.all.arrived != 0) std::abort();
}

}  // namespace

void run_grid(std::int64_t blocks, const std::function<void()>& body) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static std::mt19937 random(1);
  std::vector<unsigned> order(static_cast<std::size_t>(blocks));
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random);
  grid.x = static_cast<unsigned>(blocks);
  for (const unsigned index : order) {
    block.x = index;
    run_block(body);
  }
}

void wait_for_block() { wait_at(the_block().all); }
void wait_for_warp() { wait_at(the_block().warps[thread.x / kWarp]); }
std::uint64_t* words_of_lane(unsigned lane) {
  return the_block().words[thread.x / kWarp * kWarp + lane].data();
}

}  // namespace emulated

void check_aligned(const void* data) {
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) std::abort();
}

}  // namespace ddpscope::cuda
