#include "tests/stacks/call_shapes.h"

#include <alloca.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>

// DDPSCOPE_SHAPES names the namespace: one for each set of options.
namespace ddpscope::DDPSCOPE_SHAPES {
namespace {

Look current = nullptr;
volatile int sink = 0;

[[gnu::noinline]] void look() {
  current();
  sink = sink + 1;
}

[[gnu::noinline]] void recurse(int depth) {
  if (depth > 0) {
    recurse(depth - 1);
  } else {
    look();
  }
  sink = sink + depth;
}

[[gnu::noinline]] void variable_frame(std::size_t bytes) {
  auto* room = static_cast<char*>(alloca(bytes));
  std::memset(room, int(bytes), bytes);
  look();
  sink = sink + room[bytes / 2];
}

struct alignas(64) Wide {
  volatile char bytes[64] = {};
};

[[gnu::noinline]] void realigned(int value) {
  Wide wide;
  wide.bytes[0] = char(value);
  look();
  sink = sink + wide.bytes[0];
}

// Arguments on the stack and a frame of unknown size: the realigned frame needs a pointer of its
// own to its caller's.
[[gnu::noinline]] void realigned_and_variable(std::array<int, 20> many, std::size_t bytes) {
  Wide wide;
  auto* room = static_cast<char*>(alloca(bytes));
  std::memset(room, many[3], bytes);
  wide.bytes[1] = room[0];
  look();
  sink = sink + wide.bytes[1] + many[19];
}

[[gnu::noinline]] void large_frame() {
  volatile char large[700 * 1000];
  large[0] = 1;
  look();
  sink = sink + large[0];
}

struct Base {
  virtual ~Base() = default;
  virtual void call(double value) = 0;
};
struct Derived : Base {
  void call(double value) override {
    look();
    sink = sink + int(value);
  }
};

struct LooksAtItsEnd {
  ~LooksAtItsEnd() { look(); }
};

[[gnu::noinline]] void throw_on() { throw std::runtime_error("expected"); }

[[gnu::noinline]] void exceptions() {
  try {
    const LooksAtItsEnd guard;
    throw_on();
  } catch (const std::exception& error) {
    sink = sink + int(std::strlen(error.what()));
    look();
  }
  look();
}

int compare(const void* left, const void* right) {
  if (sink % 2 == 0) look();
  return *static_cast<const int*>(left) - *static_cast<const int*>(right);
}

[[gnu::noinline]] void through_library() {
  std::array<int, 4> numbers{3, 1, 2, 4};
  std::qsort(numbers.data(), numbers.size(), sizeof(int), compare);
  std::array<int, 4> others{3, 1, 2, 4};
  std::sort(others.begin(), others.end(), [](int left, int right) {
    look();
    return left < right;
  });
}

}  // namespace

void call_all(Look at) {
  current = at;
  recurse(0);
  recurse(9);
  variable_frame(33);
  variable_frame(4000);
  realigned(3);
  realigned_and_variable({1, 2, 3, 4}, 77);
  large_frame();
  const std::function<void(int)> function = [](int depth) { recurse(depth); };
  function(2);
  Derived derived;
  Base& base = derived;
  base.call(1.5);
  exceptions();
  through_library();
}

}  // namespace ddpscope::DDPSCOPE_SHAPES
