#include "exchange/ring_guard.h"

#include <sys/mman.h>

#include <atomic>

namespace ddpscope {
namespace {
constinit std::atomic<char*> guarded{nullptr};
constinit std::atomic<std::size_t> guarded_bytes{0};
constinit std::atomic<bool> is_mended{false};
}  // namespace

void guard_ring(void* begin, std::size_t bytes) noexcept {
  guarded_bytes = 0;
  guarded = static_cast<char*>(begin);
  guarded_bytes = bytes;
}

void forget_ring(const void* begin) noexcept {
  if (guarded == begin) guarded_bytes = 0;
}

bool mend_ring(const void* at) noexcept {
  char* const begin = guarded;
  const std::size_t bytes = guarded_bytes;
  const auto* const fault = static_cast<const char*>(at);
  if (fault < begin || fault >= begin + bytes) return false;
  constexpr int kKind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  if (::mmap(begin, bytes, PROT_READ | PROT_WRITE, kKind, -1, 0) == MAP_FAILED) return false;
  is_mended = true;
  return true;
}

bool is_ring_mended() noexcept { return is_mended; }

}  // namespace ddpscope
