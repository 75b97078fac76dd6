#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
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

// What kernels read and write beside their tensors is found by AddressSanitizer, which has to know
// the stacks.
#ifdef __SANITIZE_ADDRESS__
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

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

struct Stack {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  void* fake = nullptr;  // of AddressSanitizer, while it rests
};

#ifdef __SANITIZE_ADDRESS__
/// Before this stack is left, for good where `rests` is null, and when another was left for it.
void leave(Stack* rests, const Stack& next) {
  __sanitizer_start_switch_fiber(rests == nullptr ? nullptr : &rests->fake, next.begin, next.bytes);
}
void enter(const Stack& stack, Stack* left) {
  __sanitizer_finish_switch_fiber(stack.fake, left == nullptr ? nullptr : &left->begin,
                                  left == nullptr ? nullptr : &left->bytes);
}
#else
void leave(Stack*, const Stack&) {}
void enter(const Stack&, Stack*) {}
#endif

struct Fiber {
  std::unique_ptr<char[]> memory = std::make_unique<char[]>(kStackBytes);
  Stack stack = {memory.get(), kStackBytes};
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
  Stack scheduler_stack;
  const std::function<void()>* body = nullptr;
  bool has_moved = false;  // some thread since all were asked last
};

Block& the_block() {
  static auto* const leaked = new Block;
  return *leaked;
}

void run_fiber() {
  Block& now = the_block();
  enter({}, &now.scheduler_stack);
  (*now.body)();
  now.fibers[thread.x].is_done = true;
  leave(nullptr, now.scheduler_stack);
  _longjmp(now.scheduler, 1);
}

void yield() {
  Block& now = the_block();
  Fiber& fiber = now.fibers[thread.x];
  if (_setjmp(fiber.place) == 0) {
    leave(&fiber.stack, now.scheduler_stack);
    _longjmp(now.scheduler, 1);
  }
  enter(fiber.stack, nullptr);
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
  if (_setjmp(now.scheduler) != 0) return enter(now.scheduler_stack, nullptr);
  leave(&now.scheduler_stack, fiber.stack);
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
    fiber.entry.uc_stack.ss_sp = fiber.memory.get();
    fiber.stack.fake = nullptr;
    fiber.entry.uc_stack.ss_size = kStackBytes;
    fiber.entry.uc_link = nullptr;
    makecontext(&fiber.entry, run_fiber, 0);
  }
}

/// The threads from the first to the last, or the other way, so that what they must wait for is
/// missed by one of both.
void run_block(const std::function<void()>& body, bool is_backwards) {
  begin_block(body);
  Block& now = the_block();
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
    run_block(body, random() % 2 == 0);
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
