#include <cfenv>
#include <cstdint>

#include "tests/support/catch.h"
#include "tests/values/reference.h"
#include "values/tensor_values.h"
#if defined(__x86_64__)
#include <xmmintrin.h>

using namespace ddpscope;
using namespace ddpscope::values_test;

namespace {

/// Runs the pass with the thread in this mode, which must survive it.
TensorValues measure_in_mode(const Tensor& tensor, unsigned mode, ValuePath path) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(mode);
  const TensorValues values = measure_values(tensor.data(), path);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  CHECK(after == mode);
  return values;
}

}  // namespace

TEST_CASE("The floating-point mode of the thread changes no bit and survives", "[values]") {
  constexpr unsigned kPlain = 0x1F80, kFlushAll = 0x8040, kRoundUp = 0x4000, kTrapAll = 0x0000;
  const ScalarKind kind = GENERATE(from_range(kKinds));
  const ValuePath path = GENERATE(ValuePath::kPortable, ValuePath::kBest);
  Tensor tensor(kind, 3000);
  tensor.fill(1);
  for (std::int64_t i = 0; i < 3000; i += 100) {
    for (const std::uint64_t bits : special_bits(kind)) tensor.set(i++, bits);
  }
  const TensorValues plain = measure_in_mode(tensor, kPlain, path);
  CHECK(are_same_bits(measure_in_mode(tensor, kPlain | kFlushAll, path), plain));
  CHECK(are_same_bits(measure_in_mode(tensor, kPlain | kRoundUp, path), plain));
  CHECK(are_same_bits(measure_in_mode(tensor, kTrapAll, path), plain));
}
#endif
