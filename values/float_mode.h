#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ddpscope::values {

/// Training programs flush subnormals to zero, round otherwise or trap: none of it may change a
/// value or raise a signal in our pass. Restores the thread's mode, its sticky flags included.
class PlainFloatMode {
 public:
#if defined(__x86_64__)
  PlainFloatMode() : before_(_mm_getcsr()) { _mm_setcsr(kPlain); }
  ~PlainFloatMode() { _mm_setcsr(before_); }
#else
  PlainFloatMode() = default;
#endif
  PlainFloatMode(const PlainFloatMode&) = delete;
  PlainFloatMode& operator=(const PlainFloatMode&) = delete;

#if defined(__x86_64__)
 private:
  static constexpr unsigned kPlain = 0x1F80;  // all exceptions masked, to nearest, nothing flushed
  unsigned before_;
#endif
};

}  // namespace ddpscope::values
