#include "stacks/capture.h"

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "tests/stacks/call_shapes.h"
#include "tests/support/catch.h"

namespace ddpscope {
namespace {

struct Seen {
  int looks = 0;
  int different = 0;
  int cut = 0;
};
Seen seen;

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* frames) {
  const auto pc = _Unwind_GetIP(context);
  if (pc != 0) static_cast<std::vector<void*>*>(frames)->push_back(reinterpret_cast<void*>(pc));
  return _URC_NO_REASON;
}

/// Both are called from here: all but the innermost address are equal. What backtrace() calls is
/// called itself, because the sanitizers put a frame of theirs before backtrace().
[[gnu::noinline]] void compare_with_backtrace() {
  std::array<void*, 200> ours{};
  std::vector<void*> theirs;
  const CapturedStack stack = capture_stack(ours);
  _Unwind_Backtrace(add_frame, &theirs);
  const bool same = std::equal(ours.begin() + 1, ours.begin() + std::ptrdiff_t(stack.frames),
                               theirs.begin() + 1, theirs.end());
  seen.looks += 1;
  seen.different += same ? 0 : 1;
  seen.cut += stack.complete ? 0 : 1;
}

void check_all_equal() {
  CHECK(seen.looks > 15);
  CHECK(seen.different == 0);
  CHECK(seen.cut == 0);
  seen = {};
}

/// The frames of a stack as this function's caller would see them.
std::vector<void*> stack_here(std::size_t depth, bool* complete) {
  std::vector<void*> frames(depth);
  const CapturedStack stack = capture_stack(frames);
  frames.resize(stack.frames);
  *complete = stack.complete;
  return frames;
}

}  // namespace

TEST_CASE("A captured stack is the one that backtrace finds", "[stacks]") {
  seen = {};
  SECTION("without optimisation") { shapes_o0::call_all(compare_with_backtrace); }
  SECTION("at -O2") { shapes_o2::call_all(compare_with_backtrace); }
  SECTION("without frame pointers") { shapes_no_pointer::call_all(compare_with_backtrace); }
  SECTION("at -O3 with vectors") { shapes_vector::call_all(compare_with_backtrace); }
  SECTION("on another thread") {
    std::thread([] { shapes_o2::call_all(compare_with_backtrace); }).join();
  }
  SECTION("a second time, from what the first one learnt") {
    shapes_o2::call_all(compare_with_backtrace);
    shapes_o2::call_all(compare_with_backtrace);
  }
  check_all_equal();
}

TEST_CASE("A captured stack keeps its innermost frames and says what it left out", "[stacks]") {
  bool complete = true;
  const std::vector<void*> few = stack_here(3, &complete);
  CHECK(few.size() == 3);
  CHECK_FALSE(complete);
  const std::vector<void*> all = stack_here(200, &complete);
  CHECK(complete);
  REQUIRE(all.size() > 3);
  CHECK(all[2] == few[2]);
  CHECK(stack_here(0, &complete).empty());
  CHECK_FALSE(complete);
  CHECK(stack_here(all.size(), &complete).size() == all.size());
  CHECK(complete);
}

TEST_CASE("A stack that is not the thread's own is left after its first frame", "[stacks]") {
  static ucontext_t back;
  static CapturedStack stack;
  static std::array<void*, 20> frames;
  std::vector<char> room(std::size_t{1} << 16);
  ucontext_t fiber;
  REQUIRE(getcontext(&fiber) == 0);
  fiber.uc_stack = {.ss_sp = room.data(), .ss_flags = 0, .ss_size = room.size()};
  fiber.uc_link = &back;
  makecontext(
      &fiber, [] { stack = capture_stack(frames); }, 0);
  REQUIRE(swapcontext(&back, &fiber) == 0);
  CHECK(stack.frames == 1);
  CHECK_FALSE(stack.complete);
}

TEST_CASE("A stack ends cleanly at the frame of a signal", "[stacks]") {
  static CapturedStack stack;
  static std::array<void*, 20> frames;
  struct sigaction before {};
  struct sigaction mine {};
  mine.sa_handler = [](int) { stack = capture_stack(frames); };
  REQUIRE(sigaction(SIGUSR2, &mine, &before) == 0);
  raise(SIGUSR2);
  sigaction(SIGUSR2, &before, nullptr);
  CHECK(stack.frames >= 2);
  CHECK(stack.frames <= 6);
  CHECK_FALSE(stack.complete);
}

TEST_CASE("A library that takes the place of an unloaded one is unwound by its own rules",
          "[stacks]") {
  seen = {};
  void* places[2] = {};
  for (int turn = 0; turn < 4; ++turn) {
    const char* path = turn % 2 == 0 ? DDPSCOPE_FRAME_SMALL : DDPSCOPE_FRAME_LARGE;
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    const auto call = reinterpret_cast<void (*)(void (*)())>(dlsym(library, "call_below"));
    REQUIRE(call != nullptr);
    call(compare_with_backtrace);
    places[turn % 2] = reinterpret_cast<void*>(call);
    dlclose(library);
  }
  if (places[0] != places[1]) DDPSCOPE_SKIP("the loader used another place");
  CHECK(seen.looks == 4);
  CHECK(seen.different == 0);
}

TEST_CASE("Capturing allocates nothing once its thread is known", "[stacks]") {
  std::array<void*, 64> frames{};
  capture_stack(frames);
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 1000; ++i) capture_stack(frames);
  CHECK(mallinfo2().uordblks == before);
}

}  // namespace ddpscope
