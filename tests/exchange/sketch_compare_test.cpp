// How far the tensors of ranks lie apart, from their sketches.
#include <cmath>
#include <limits>

#include "exchange/reduction_record.h"
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::sketch_compare_test {
namespace {
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Of a tensor with one number that is not zero.
GradientSketch one(double value) {
  return {.squares = value * value, .sums = {value, value, -value, value}};
}

/// Two statistics and a buffer of another kind.
TensorList norm_list() {
  TensorList list = test_list();
  list.tensors.push_back(list.tensors.back());
  list.tensors.back().path = "bn.running_var";
  list.tensors.push_back(list.tensors.back());
  list.tensors.back().path = "mask";
  return list;
}

/// Two ranks of which the second has these sketches, the first those before.
struct Pair {
  explicit Pair(TensorList tensors = test_list()) {
    for (auto& rank : run) rank->list(tensors);
  }
  void tell(std::int64_t step, const std::vector<GradientSketch>& first,
            const std::vector<GradientSketch>& second, bool of_buffers = false) {
    for (std::uint64_t rank = 0; rank < 2; ++rank) {
      const std::string bytes = encode(rank == 0 ? first : second);
      run[rank].writer.put(Blob{BlobKind::kSketches, 0, step, bytes});
      run[rank].digest({.step = step,
                        .parameters = of_buffers ? 1 : 5 + rank,
                        .buffers = of_buffers ? 5 + rank : 1});
    }
  }
  std::vector<EstimatedDifference> estimate() const {
    const auto event = run.compared();
    REQUIRE(event.cohorts.at(0).values.size() == 1);
    return event.cohorts[0].values[0].estimate;
  }
  TestRun run{2};
};
}  // namespace

TEST_CASE("the tensor that differs most for its size is told, and by how much", "[compare]") {
  Pair pair;
  pair.tell(4, {one(100), one(2), one(3), kNoSketch}, {one(101), one(2.5), one(3), kNoSketch});
  const auto estimate = pair.estimate();
  REQUIRE(estimate.size() == 1);
  CHECK(estimate[0].path == "fc1.bias");
  CHECK(estimate[0].step == 4);
  CHECK(std::abs(estimate[0].norm - 0.5) < 1e-12);
  CHECK(std::abs(estimate[0].relative - 0.5 / 2.5) < 1e-12);
}

TEST_CASE("nothing is estimated of tensors that are not finite or were not read", "[compare]") {
  Pair pair(test_list());
  GradientSketch strange = one(9);
  strange.sums[2] = kNan;
  pair.tell(0, {one(1), kNoSketch, one(3)}, {strange, one(2), one(3)});
  CHECK(pair.estimate().empty());
}

TEST_CASE("parameters are estimated where they part, running buffers where they were last told",
          "[compare]") {
  const bool of_buffers = GENERATE(false, true);
  Pair pair(norm_list());
  const std::vector<GradientSketch> same = {one(4), one(4), one(4), kNoSketch, kNoSketch, one(4)};
  const auto other = [&](double value) {
    return std::vector{one(4 + value), one(4), one(4), kNoSketch, kNoSketch, one(4 + value)};
  };
  pair.tell(1, same, other(1), of_buffers);
  pair.tell(2, same, other(2), of_buffers);
  const auto estimate = pair.estimate();
  REQUIRE(estimate.size() == 1);
  CHECK(estimate[0].step == (of_buffers ? 2 : 1));
  CHECK(estimate[0].path == (of_buffers ? "mask" : "fc1.weight"));
  CHECK(std::abs(estimate[0].norm - (of_buffers ? 2 : 1)) < 1e-12);
}

TEST_CASE("a running mean is measured by the standard deviations, a variance not at all",
          "[compare]") {
  Pair pair(norm_list());
  // Eight channels with a variance of 4 each: their squares sum up to 128.
  GradientSketch variance{.squares = 128, .sums = {1, 2, 3, 4}};
  GradientSketch other = variance;
  other.sums[0] = 1000;
  pair.tell(2, {one(1), one(1), one(1), one(10), variance, one(1)},
            {one(1), one(1), one(1), one(12), other, one(1)}, /*of_buffers=*/true);
  const auto estimate = pair.estimate();
  REQUIRE(estimate.size() == 1);
  CHECK(estimate[0].path == "bn.running_mean");
  CHECK(std::abs(estimate[0].relative - 2 / std::sqrt(8 * 4.0)) < 1e-12);
}

TEST_CASE("a rank that evaluated in any step has evaluated", "[compare]") {
  TestRun run(2);
  for (std::int64_t step = 1; step <= 3; ++step) {
    run[0].digest({.step = step, .structure = 1});
    run[1].digest({.step = step, .structure = 1, .evaluated = step == 2});
  }
  const auto event = run.compared();
  REQUIRE(event.cohorts.at(0).counts.size() == 2);
  CHECK_FALSE(event.cohorts[0].counts[0].evaluated);
  CHECK(event.cohorts[0].counts[1].evaluated);
}

}  // namespace ddpscope::test::sketch_compare_test
