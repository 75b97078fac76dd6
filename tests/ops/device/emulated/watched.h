#pragma once

// What sanitizers have to know of threads that take turns on stacks of their own.
#include <cstddef>
#include <thread>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef DDPSCOPE_FINDS_RACES
#include <sanitizer/tsan_interface.h>
#endif

namespace ddpscope::cuda::emulated {

struct Stack {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  void* fake = nullptr;    // of AddressSanitizer, while it rests
  void* thread = nullptr;  // of ThreadSanitizer
};

#if defined __SANITIZE_ADDRESS__
/// Before this stack is left, for good where `rests` is null, and when another was left for it.
inline void leave(Stack* rests, const Stack& next) {
  __sanitizer_start_switch_fiber(rests == nullptr ? nullptr : &rests->fake, next.begin, next.bytes);
}
inline void enter(const Stack& stack, Stack* left) {
  __sanitizer_finish_switch_fiber(stack.fake, left == nullptr ? nullptr : &left->begin,
                                  left == nullptr ? nullptr : &left->bytes);
}
#elif defined DDPSCOPE_FINDS_RACES
inline void leave(Stack*, const Stack& next) {
  __tsan_switch_to_fiber(next.thread, __tsan_switch_to_fiber_no_sync);
}
inline void enter(const Stack&, Stack*) {}
#else
inline void leave(Stack*, const Stack&) {}
inline void enter(const Stack&, Stack*) {}
#endif

// Turns order nothing: a thread sees what others wrote where it met them since.
#ifdef DDPSCOPE_FINDS_RACES
inline constexpr bool kFindsRaces = true;
inline void* begin_thread() { return __tsan_create_fiber(0); }
inline void* own_thread() { return __tsan_get_current_fiber(); }
inline void tell(char* place) { __tsan_release(place); }
inline void hear(char* place) { __tsan_acquire(place); }
/// With memory of its own in the place of what the threads of a block share.
template <class Work>
void run_alone(const Work& work) {
  std::thread(work).join();
}
#else
inline constexpr bool kFindsRaces = false;
inline void* begin_thread() { return nullptr; }
inline void* own_thread() { return nullptr; }
inline void tell(char*) {}
inline void hear(char*) {}
template <class Work>
void run_alone(const Work& work) {
  work();
}
#endif

}  // namespace ddpscope::cuda::emulated
