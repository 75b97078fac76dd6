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
#include "tests/ops/device/emulated/watched.h"

// What kernels read and write beside their tensors is found by AddressSanitizer, what threads read
// and write without having met by ThreadSanitizer. Both have to know the stacks.
#ifdef __SANITIZE_ADDRESS__
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

namespace ddpscope::cuda {
namespace emulated {

Index thread, block, grid;

namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kWords = 16, kPlaceWords = 5;

/// Threads that go on when all of them have come.
struct Barrier {
  int members = 0, arrived = 0;
  long generation = 0;
  char met[2] = {};  // this time, and next
};

struct Fiber {
  std::unique_ptr<char[]> memory = std::make_unique<char[]>(kStackBytes);
  Stack stack = {.begin = memory.get(), .bytes = kStackBytes, .thread = begin_thread()};
  ucontext_t entry = {};
  void* place[kPlaceWords] = {};
  bool is_started = false, is_done = false;
};

/// Runs blocks one after the other, in memory that they share.
struct Processor {
  std::array<Fiber, kThreads> fibers;
  std::array<Barrier, kWarps> warps;
  Barrier all;
  std::array<std::array<std::uint64_t, kWords>, kThreads> words = {};
  void* scheduler[kPlaceWords] = {};
  Stack scheduler_stack;
  bool is_odd = false;  // of the blocks that were run here
  char has_begun = 0, has_ended[2] = {};
  const std::function<void()>* body = nullptr;
  bool has_moved = false;  // some thread since all were asked last
};

Processor& next_processor() {
  static auto *const leaked = new std::array < Processor, kFindsRaces ? 2 : 1 > ;
  static std::size_t turn = 0;
  return (*leaked)[turn++ % leaked->size()];
}

Processor* current = nullptr;
char grid_has_ended;

void run_fiber() {
  Processor& now = *current;
  enter({}, &now.scheduler_stack);
  hear(&now.has_begun);
  hear(&now.has_ended[now.is_odd ? 0 : 1]);
  (*now.body)();
  tell(&now.has_ended[now.is_odd ? 1 : 0]);
  tell(&grid_has_ended);
  now.fibers[thread.x].is_done = true;
  leave(nullptr, now.scheduler_stack);
  __builtin_longjmp(now.scheduler, 1);
}

void yield() {
  Processor& now = *current;
  Fiber& fiber = now.fibers[thread.x];
  if (__builtin_setjmp(fiber.place) == 0) {
    leave(&fiber.stack, now.scheduler_stack);
    __builtin_longjmp(now.scheduler, 1);
  }
  enter(fiber.stack, nullptr);
}

void wait_at(Barrier& barrier) {
  Processor& now = *current;
  const long generation = barrier.generation;
  char* const met = &barrier.met[generation % 2];
  now.has_moved = true;
  tell(met);
  if (++barrier.arrived == barrier.members) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  while (barrier.generation == generation) yield();
  hear(met);
}

void resume(unsigned index) {
  Processor& now = *current;
  thread.x = index;
  Fiber& fiber = now.fibers[index];
  if (__builtin_setjmp(now.scheduler) != 0) return enter(now.scheduler_stack, nullptr);
  leave(&now.scheduler_stack, fiber.stack);
  if (fiber.is_started) __builtin_longjmp(fiber.place, 1);
  fiber.is_started = true;
  now.has_moved = true;
  setcontext(&fiber.entry);
}

void begin_fiber(Fiber& fiber) {
  fiber.is_started = fiber.is_done = false;
  fiber.stack.fake = nullptr;
  getcontext(&fiber.entry);
  fiber.entry.uc_stack.ss_sp = fiber.memory.get();
  fiber.entry.uc_stack.ss_size = kStackBytes;
  fiber.entry.uc_link = nullptr;
  makecontext(&fiber.entry, run_fiber, 0);
}

void begin_block(const std::function<void()>& body) {
  Processor& now = *current;
  now.is_odd = !now.is_odd;
  now.scheduler_stack.thread = own_thread();
  now.body = &body;
  now.all = {.members = kThreads};
  for (Barrier& warp : now.warps) warp = {.members = kWarp};
  for (Fiber& fiber : now.fibers) begin_fiber(fiber);
  tell(&now.has_begun);
}

/// The threads from the first to the last, or the other way, so that what they must wait for is
/// missed by one of both.
void run_block(const std::function<void()>& body, bool is_backwards) {
  begin_block(body);
  Processor& now = *current;
  for (int done = 0; done < kThreads;) {
    now.has_moved = false;
    done = 0;
    for (unsigned i = 0; i < kThreads; ++i) {
      const unsigned index = is_backwards ? kThreads - 1 - i : i;
      if (!now.fibers[index].is_done) resume(index);
      done += now.fibers[index].is_done ? 1 : 0;
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
    current = &next_processor();
    run_alone([&] { run_block(body, random() % 2 == 0); });
  }
  hear(&grid_has_ended);
}

void wait_for_block() { wait_at(current->all); }
void wait_for_warp() { wait_at(current->warps[thread.x / kWarp]); }
std::uint64_t* words_of_lane(unsigned lane) {
  return current->words[thread.x / kWarp * kWarp + lane].data();
}

}  // namespace emulated

void check_aligned(const void* data) {
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) std::abort();
}

}  // namespace ddpscope::cuda
