#include "values/extremes.h"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/catch.h"
#include "tests/values/reference.h"

using namespace ddpscope;
using namespace ddpscope::values_test;

namespace {
constexpr std::array<std::int64_t, 8> kSizes = {0, 1, 7, 31, 33, 64, 1000, 65537};
constexpr std::array kPaths = {ValuePath::kPortable, ValuePath::kAvx2, ValuePath::kAvx512,
                               ValuePath::kBest};

void check_against_values(const TensorData& data, ValuePath path) {
  const TensorValues all = measure_values(data, ValuePath::kPortable);
  CHECK(measure_extremes(data, path) == Extremes{all.absmax, all.nan_count, all.inf_count});
}
}  // namespace

TEST_CASE("The extremes are those of the full pass", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  const std::int64_t elements = GENERATE(from_range(kSizes));
  const ValuePath path = GENERATE(from_range(kPaths));
  if (!is_available(path)) return;
  CAPTURE(static_cast<int>(kind), elements, static_cast<int>(path));
  check_against_values(Tensor(kind, elements).fill(3).data(), path);
}

TEST_CASE("One NaN or Inf is found at every place of every path", "[values]") {
  const ValuePath path = GENERATE(from_range(kPaths));
  if (!is_available(path)) return;
  const float special = GENERATE(INFINITY, -INFINITY, NAN, -NAN);
  std::vector<float> numbers(133, -2.5F);
  for (std::size_t place = 0; place < numbers.size(); ++place) {
    std::vector<float> with = numbers;
    with[place] = special;
    const Extremes found = measure_extremes({with.data(), 133, ScalarKind::kFloat}, path);
    CHECK_FALSE(found.is_finite());
    CHECK(found.nan_count == (std::isnan(special) ? 1 : 0));
    CHECK(found.inf_count == (std::isinf(special) ? 1 : 0));
    CHECK(found.absmax == 2.5);
  }
}

TEST_CASE("Elements need no alignment", "[values]") {
  std::vector<unsigned char> bytes(4 * 100 + 1, 0);
  const float number = -7;
  std::memcpy(bytes.data() + 1 + 4 * 57, &number, sizeof number);
  CHECK(measure_extremes({bytes.data() + 1, 100, ScalarKind::kFloat}).absmax == 7);
}
