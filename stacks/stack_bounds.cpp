#include "stacks/stack_bounds.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

extern "C" void*
    __libc_stack_end;  // NOLINT(bugprone-reserved-identifier,readability-identifier-naming)

namespace ddpscope {
namespace {

// Of the main thread where its stack may grow without limit.
constexpr std::uint64_t kLargestStack = std::uint64_t{1} << 30;

/// pthread_getattr_np would read /proc/self/maps for the main thread.
StackBounds main_bounds() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0) return {};
  const auto size = std::min<std::uint64_t>(limit.rlim_cur, kLargestStack);
  const auto end = reinterpret_cast<std::uintptr_t>(__libc_stack_end);
  return end > size ? StackBounds{end - size, end} : StackBounds{};
}

StackBounds read_bounds() noexcept {
  if (::getpid() == ::gettid()) return main_bounds();
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return {};
  void* begin = nullptr;
  std::size_t size = 0;
  const bool known = ::pthread_attr_getstack(&attributes, &begin, &size) == 0;
  ::pthread_attr_destroy(&attributes);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  return known ? StackBounds{first, first + size} : StackBounds{};
}

}  // namespace

const StackBounds& stack_bounds() noexcept {
  thread_local StackBounds bounds;
  if (bounds.end == 0) bounds = read_bounds();
  return bounds;
}

}  // namespace ddpscope
