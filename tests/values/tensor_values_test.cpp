#include "values/tensor_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/catch.h"
#include "tests/values/reference.h"
#include "values/kernels.h"

using namespace ddpscope;
using namespace ddpscope::values_test;

namespace {

constexpr std::array<std::int64_t, 9> kSizes = {0, 1, 7, 8, 31, 32, 33, 1000, 65537};
constexpr std::array kPaths = {ValuePath::kPortable, ValuePath::kAvx2, ValuePath::kAvx512,
                               ValuePath::kBest};

void check_against_naive(const Tensor& tensor, ValuePath path) {
  const TensorValues values = measure_values(tensor.data(), path);
  const Expected expected = naive_values(tensor);
  CHECK(values.sum_of_squares == Approx(expected.values.sum_of_squares).epsilon(1e-13));
  CHECK(values.absmax == expected.values.absmax);
  CHECK(values.nan_count == expected.values.nan_count);
  CHECK(values.inf_count == expected.values.inf_count);
  CHECK(values.zero_count == expected.values.zero_count);
  for (const double sketch : values.sketch) {
    CHECK(std::abs(sketch) <= expected.sum_of_magnitudes * (1 + 1e-12));
  }
}

void check_paths_agree(const Tensor& tensor) {
  const TensorValues portable = measure_values(tensor.data(), ValuePath::kPortable);
  for (const ValuePath path : kPaths) {
    if (is_available(path)) CHECK(measure_values(tensor.data(), path) == portable);
  }
}

}  // namespace

TEST_CASE("The values equal those of a plain loop", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  const std::int64_t elements = GENERATE(from_range(kSizes));
  const ValuePath path = GENERATE(from_range(kPaths));
  if (!is_available(path)) return;
  CAPTURE(static_cast<int>(kind), elements, static_cast<int>(path));
  check_against_naive(Tensor(kind, elements).fill(1), path);
}

TEST_CASE("The sum of squares keeps to its bound", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  constexpr std::int64_t kElements = 1 << 18;
  const Tensor tensor = Tensor(kind, kElements).fill(8);
  long double exact = 0;  // of 64 bits
  for (std::int64_t i = 0; i < kElements; ++i) {
    const long double x = tensor.number(i);
    exact += x * x;
  }
  const auto bound = static_cast<double>(exact) * (37 + 8) * 0x1p-53;
  const long double sum = measure_values(tensor.data()).sum_of_squares;
  CHECK(static_cast<double>(std::abs(sum - exact)) <= bound);
}

TEST_CASE("Whatever signs a block's key gives, every path leaves the same bits", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  const std::uint64_t key = GENERATE(0ULL, 1ULL << 31, 1ULL << 63, 1ULL << 63 | 1ULL << 31);
  const bool is_zero = GENERATE(false, true);
  Tensor tensor(kind, 64);
  if (!is_zero) tensor.fill(9);
  const auto measured = [&](ValuePath path) {
    const values::BlockKernel kernel =
        values::block_kernels_of(path).by_kind[static_cast<std::size_t>(kind)];
    return kernel(tensor.begin(), 2, key).values;
  };
  for (const ValuePath path : kPaths) {
    if (!is_available(path)) continue;
    CHECK(are_same_bits(measured(path), measured(ValuePath::kPortable)));
  }
}

TEST_CASE("Every path of the CPU computes the same bits", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  const std::int64_t elements = GENERATE(from_range(kSizes));
  CAPTURE(static_cast<int>(kind), elements);
  check_paths_agree(Tensor(kind, elements).fill(2));
}

TEST_CASE("A special number is counted at every place", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  const std::int64_t elements = GENERATE(1, 33, 2100);
  for (const std::uint64_t bits : special_bits(kind)) {
    for (const std::int64_t index : {0, 1, 7, 8, 9, 31, 32, 1023, 1024, 2047, 2048, 2099}) {
      if (index >= elements) break;
      Tensor tensor(kind, elements);
      tensor.fill(3).set(index, bits);
      CAPTURE(static_cast<int>(kind), bits, index);
      for (const ValuePath path : kPaths) {
        if (is_available(path)) check_against_naive(tensor, path);
      }
      check_paths_agree(tensor);
    }
  }
}

TEST_CASE("Many special numbers at once leave the finite rest measured", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  Tensor tensor(kind, 5000);
  tensor.fill(4);
  const std::vector<std::uint64_t> special = special_bits(kind);
  for (std::size_t i = 0; i < 5000; i += 3) {
    tensor.set(static_cast<std::int64_t>(i), special[i % special.size()]);
  }
  check_against_naive(tensor, ValuePath::kBest);
  check_paths_agree(tensor);
  CHECK(std::isfinite(measure_values(tensor.data()).sketch[0]));
}

TEST_CASE("Doubles that overflow leave the same bits on every path", "[values]") {
  Tensor tensor(ScalarKind::kDouble, 4096);
  for (std::int64_t i = 0; i < 4096; ++i) tensor.set(i, 0x7FE0000000000000 | std::uint64_t(i));
  const TensorValues portable = measure_values(tensor.data(), ValuePath::kPortable);
  CHECK(portable.sum_of_squares == std::numeric_limits<double>::infinity());
  const auto is_overflown = [](double sketch) {
    return std::isnan(sketch) && !std::signbit(sketch);
  };
  CHECK(std::ranges::any_of(portable.sketch, is_overflown));
  for (const ValuePath path : kPaths) {
    if (!is_available(path)) continue;
    CHECK(are_same_bits(measure_values(tensor.data(), path), portable));
  }
}

TEST_CASE("Data need not be aligned", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  const std::int64_t elements = GENERATE(33, 3000);
  const TensorValues aligned = measure_values(Tensor(kind, elements).fill(5).data());
  for (const int offset : {1, 2, 3, 4, 7, 15, 33}) {
    Tensor moved(kind, elements, offset);
    CHECK(measure_values(moved.fill(5).data()) == aligned);
  }
}

TEST_CASE("A list gives each tensor its own values", "[values]") {
  Tensor half(ScalarKind::kHalf, 40), wide(ScalarKind::kDouble, 70000);
  half.fill(6);
  wide.fill(7);
  const std::vector<TensorData> list = {half.data(), {}, wide.data()};
  std::vector<TensorValues> results(list.size());
  measure_values(list, results);
  CHECK(results[0] == measure_values(half.data()));
  CHECK(results[1] == TensorValues());
  CHECK(results[2] == measure_values(wide.data()));
}
