#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/catch.h"
#include "tests/values/reference.h"
#include "values/tensor_values.h"

using namespace ddpscope;
using namespace ddpscope::values_test;

namespace {

TensorData data_of(const std::vector<float>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), ScalarKind::kFloat};
}

std::vector<float> random_gradient(std::size_t elements, unsigned seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> gradient(elements);
  for (float& element : gradient) element = normal(random);
  return gradient;
}

/// What an all-reduce in float leaves on every rank.
std::vector<float> mean_of(const std::vector<std::vector<float>>& ranks) {
  std::vector<float> mean = ranks[0];
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) mean[i] += ranks[rank][i];
    mean[i] /= static_cast<float>(ranks.size());
  }
  return mean;
}

struct Audit {
  double worst_error = 0;
  double tolerance = 0;
};

/// 6 * 2^-24 * sqrt(W) * sum of the ranks' norms / W, as the cross-rank checks allow.
Audit audit(const std::vector<std::vector<float>>& ranks, const std::vector<float>& reduced) {
  const auto world = static_cast<double>(ranks.size());
  double mean[kSketchSize] = {};
  double norms = 0;
  for (const std::vector<float>& rank : ranks) {
    const TensorValues values = measure_values(data_of(rank));
    norms += std::sqrt(values.sum_of_squares);
    for (int k = 0; k < kSketchSize; ++k) mean[k] += values.sketch[k] / world;
  }
  Audit result;
  result.tolerance = 6 * 0x1p-24 * std::sqrt(world) * norms / world;
  const TensorValues values = measure_values(data_of(reduced));
  for (int k = 0; k < kSketchSize; ++k) {
    result.worst_error = std::max(result.worst_error, std::abs(values.sketch[k] - mean[k]));
  }
  return result;
}

}  // namespace

TEST_CASE("The sketch of a mean is the mean of the sketches within the bound", "[values]") {
  const std::size_t elements = GENERATE(8, 256, 8192, 300003);
  const std::size_t world = GENERATE(2, 8);
  std::vector<std::vector<float>> ranks;
  ranks.reserve(world);
  for (std::size_t rank = 0; rank < world; ++rank) {
    const float scale = rank % 3 == 2 ? 100.0F : 1.0F;
    ranks.push_back(random_gradient(elements, static_cast<unsigned>(rank), scale * 1e-3F));
  }
  CAPTURE(elements, world);
  const Audit honest = audit(ranks, mean_of(ranks));
  CHECK(honest.worst_error <= honest.tolerance);
  const Audit local = audit(ranks, ranks[0]);
  CHECK(local.worst_error > local.tolerance);
}

TEST_CASE("Equal gradients stay within the bound of the sketch", "[values]") {
  const std::size_t elements = GENERATE(64, 1000, 100000);
  const std::vector<std::vector<float>> ranks = {std::vector<float>(elements, 0.1F),
                                                 std::vector<float>(elements, 0.7F),
                                                 std::vector<float>(elements, 0.3F)};
  const Audit honest = audit(ranks, mean_of(ranks));
  CHECK(honest.worst_error <= honest.tolerance);
}

TEST_CASE("A flipped bit of a reduced gradient leaves the bound of the sketch", "[values]") {
  std::vector<std::vector<float>> ranks = {random_gradient(8192, 1, 1e-2F),
                                           random_gradient(8192, 2, 1e-2F)};
  ranks[0][4000] = 0.02F;
  std::vector<float> reduced = mean_of(ranks);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &reduced[4000], sizeof bits);
  bits ^= 1U << 18;
  std::memcpy(&reduced[4000], &bits, sizeof bits);
  const Audit broken = audit(ranks, reduced);
  CHECK(broken.worst_error > broken.tolerance);
}

TEST_CASE("The signs of a sketch are balanced and independent", "[values]") {
  constexpr std::int64_t kElements = 4096;
  const std::vector<Signs> signs = signs_of(kElements);
  for (int k = 0; k < kSketchSize; ++k) {
    for (int other = 0; other <= k; ++other) {
      int sum = 0, product = 0, neighbours = 0;
      for (std::size_t i = 0; i + 1 < kElements; ++i) {
        REQUIRE(std::abs(signs[i][k]) == 1);
        sum += signs[i][k];
        product += signs[i][k] * signs[i][other];
        neighbours += signs[i][k] * signs[i + 1][other];
      }
      CHECK(std::abs(sum) < 5 * 64);
      CHECK(std::abs(neighbours) < 5 * 64);
      if (other != k) CHECK(std::abs(product) < 5 * 64);
    }
  }
}

TEST_CASE("The signs depend on the position alone", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  const std::uint64_t one = kind == ScalarKind::kHalf       ? 0x3C00
                            : kind == ScalarKind::kBFloat16 ? 0x3F80
                            : kind == ScalarKind::kFloat    ? 0x3F800000
                                                            : 0x3FF0000000000000;
  const std::vector<Signs> signs = signs_of(1200);
  for (std::int64_t i = 0; i < 1200; i += 7) {
    Tensor unit(kind, 1200);
    const TensorValues values = measure_values(unit.set(i, one).data());
    for (int k = 0; k < kSketchSize; ++k) {
      CHECK(values.sketch[k] == signs[static_cast<std::size_t>(i)][k]);
    }
  }
}
