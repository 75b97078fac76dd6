// Built with and without debug information, optimised, stripped, with its debug information in a
// file of its own. The tests find the lines by their marks.
#include <functional>

namespace sample {
namespace {

volatile int sink = 0;

[[gnu::noinline]] void hidden(void (*look)()) {
  look();  // LINE hidden
  sink = sink + 1;
}

[[gnu::always_inline]] inline void inlined(void (*look)()) {
  hidden(look);  // LINE inlined
  sink = sink + 1;
}

}  // namespace

struct Encoder {
  template <typename T>
  [[gnu::noinline]] int forward(T value, const std::function<void()>& body) {
    body();  // LINE forward
    sink = sink + 1;
    return int(value);
  }
};

}  // namespace sample

extern "C" void sample_run(void (*look)()) {
  sample::Encoder encoder;
  const auto body = [look] {
    sample::inlined(look);  // LINE lambda
    sample::sink = sample::sink + 1;
  };
  sample::sink = encoder.forward(1.5, body);  // LINE run
}
