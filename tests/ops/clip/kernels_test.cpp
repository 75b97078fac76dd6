// The paths of the processors beside each other.
#include "ops/clip/chunk_kernels.h"
#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::kernels_test {
namespace {
using namespace clip;

constexpr at::ScalarType kTypes[kKinds] = {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};

/// Numbers of all exponents, of both signs, with zeros and what is not finite.
at::Tensor all_sorts(at::ScalarType type, std::int64_t size, bool is_finite) {
  auto values = torch::randn({size}, at::kDouble) * torch::pow(10, torch::rand({size}) * 12 - 8);
  values.slice(0, 3, size, 97) = 0;
  values = values.clamp(-6e4, 6e4);
  if (!is_finite) {
    values.slice(0, 5, size, 89) = kInfinity;
    values.slice(0, 7, size, 83) = kNan;
  }
  return values.to(type).contiguous();
}

}  // namespace

TEST_CASE("Sums and largest magnitudes have the same bits on every path") {
  if (!has_avx2()) DDPSCOPE_SKIP("this processor has no AVX2 with FMA and F16C");
  torch::manual_seed(61);
  for (int kind = 0; kind < kKinds; ++kind) {
    for (int sum = 0; sum < kSums; ++sum) {
      const auto data = all_sorts(kTypes[kind], 1024 * kLanes, /*is_finite=*/true);
      LaneSums plain, wide;
      kPortableKernels.sum[kind][sum](data.const_data_ptr(), 1024, plain);
      (&chunk_kernels())->sum[kind][sum](data.const_data_ptr(), 1024, wide);
      CAPTURE(kind, sum);
      CHECK(std::memcmp(&plain, &wide, sizeof plain) == 0);
      CHECK(plain.largest > 0);
    }
  }
}

TEST_CASE("Products have the same bits on every path, but for the bits of a NaN") {
  if (!has_avx2()) DDPSCOPE_SKIP("this processor has no AVX2 with FMA and F16C");
  REQUIRE(&chunk_kernels() != &kPortableKernels);
  torch::manual_seed(62);
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const double factor : {0.3, 1e-3, 7.7, 0., 1e-9, 1e6}) {
      for (const std::int64_t size : {1, 7, 8, 9, 20'011}) {
        const auto plain = all_sorts(kTypes[kind], size, /*is_finite=*/false), wide = plain.clone();
        kPortableKernels.scale[kind](plain.mutable_data_ptr(), size, factor);
        chunk_kernels().scale[kind](wide.mutable_data_ptr(), size, factor);
        const auto nan = plain.isnan();
        CAPTURE(kind, factor, size);
        REQUIRE(same_bits(nan, wide.isnan()));
        REQUIRE(same_bits(plain.masked_fill(nan, 0), wide.masked_fill(nan, 0)));
      }
    }
  }
}

}  // namespace ddpscope::test::kernels_test
