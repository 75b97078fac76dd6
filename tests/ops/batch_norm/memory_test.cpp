// Tensors whose memory does not hold their values: zeros that nothing holds, signs still to change.
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_neg_view.h>

#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::memory_test {
namespace {

at::Tensor zeros_of(const at::Tensor& like) {
  return at::_efficientzerotensor(like.sizes(), like.options());
}

/// Every tensor that a call and its backward read.
struct Operands {
  at::Tensor x, dy, weight, bias, mean, variance;
};

Operands operands_of(bool channels_last) {
  const auto random = [&](int seed) {
    const at::Tensor values = seeded_randn(seed, {4, 3, 2, 5});
    return channels_last ? values.contiguous(at::MemoryFormat::ChannelsLast) : values;
  };
  return {random(1),
          random(2),
          seeded_randn(3, {3}),
          seeded_randn(4, {3}),
          seeded_randn(5, {3}),
          seeded_randn(6, {3}).abs()};
}

struct Outcome {
  at::Tensor y, dx, dweight, dbias, mean, variance;
};

Outcome run(const Operands& given, bool training) {
  const at::Tensor x = given.x.detach().requires_grad_();
  const at::Tensor weight = given.weight.detach().requires_grad_();
  const at::Tensor bias = given.bias.detach().requires_grad_();
  const at::Tensor y =
      sync_batch_norm(x, given.mean, given.variance,
                      SyncBatchNormFuncOptions().weight(weight).bias(bias).training(training));
  const auto found = torch::autograd::grad({y}, {x, weight, bias}, {given.dy});
  return {y.detach(), found[0], found[1], found[2], given.mean, given.variance};
}

void check_same(const Outcome& a, const Outcome& b) {
  CHECK(same_bits(a.y, b.y));
  CHECK(same_bits(a.dx, b.dx));
  CHECK(same_bits(a.dweight, b.dweight));
  CHECK(same_bits(a.dbias, b.dbias));
  CHECK(torch::equal(a.mean, b.mean));
  CHECK(torch::equal(a.variance, b.variance));
}

}  // namespace

TEST_CASE("tensors whose sign is still to be changed are read with it", "[norm]") {
  const bool training = GENERATE(true, false), channels_last = GENERATE(true, false);
  const auto place = GENERATE(&Operands::x, &Operands::dy, &Operands::weight, &Operands::bias,
                              &Operands::mean, &Operands::variance);
  const Operands plain = operands_of(channels_last);
  Operands negative = operands_of(channels_last);
  negative.*place = at::_neg_view((negative.*place).neg());
  REQUIRE((negative.*place).is_neg());
  check_same(run(negative, training), run(plain, training));
}

TEST_CASE("an imaginary part of a conjugate is read with its sign", "[norm]") {
  const at::Tensor x = at::imag(torch::full({1, 1}, c10::complex<float>(1, 2)).conj());
  REQUIRE(x.is_neg());
  REQUIRE(x.is_contiguous());
  CHECK(sync_batch_norm(x, torch::zeros({1}), torch::ones({1}), {}).item<float>() < -1.9F);
}

TEST_CASE("zeros without memory are read as zeros", "[norm]") {
  const bool training = GENERATE(true, false), channels_last = GENERATE(true, false);
  const auto place = GENERATE(&Operands::x, &Operands::dy, &Operands::weight, &Operands::bias);
  Operands plain = operands_of(channels_last), absent = operands_of(channels_last);
  plain.*place = torch::zeros_like(plain.*place);
  absent.*place = zeros_of(absent.*place);
  const Outcome found = run(absent, training), expected = run(plain, training);
  CHECK(torch::allclose(found.y, expected.y));
  CHECK(torch::allclose(found.dx, expected.dx));
  CHECK(torch::allclose(found.dweight, expected.dweight));
  CHECK(torch::allclose(found.variance, expected.variance));
}

TEST_CASE("the gradient of sgn passes a layer over all ranks", "[norm]") {
  const auto sums = on_ranks(2, [](int rank, const CommunicatorPtr& group) {
    SyncBatchNorm1d norm(torch::nn::BatchNormOptions(4), group);
    const at::Tensor x = seeded_randn(rank, {3, 4}).requires_grad_();
    torch::sgn(norm->forward(x)).sum().backward();
    return x.grad().abs().sum().item<float>() + norm->weight.grad().abs().sum().item<float>();
  });
  CHECK(sums == std::vector<float>{0, 0});
}

TEST_CASE("running values without memory are read, and refused where they are written", "[norm]") {
  using Catch::Matchers::Contains;
  const at::Tensor x = seeded_randn(1, {4, 3}), zeros = zeros_of(torch::zeros({3}));
  const auto options = SyncBatchNormFuncOptions().training(true);
  CHECK(torch::equal(sync_batch_norm(x, zeros, zeros, {}),
                     sync_batch_norm(x, torch::zeros({3}), torch::zeros({3}), {})));
  CHECK_THROWS_WITH(sync_batch_norm(x, zeros, torch::ones({3}), options),
                    Contains("running_mean is a tensor of zeros without memory"));
  const at::Tensor count = zeros_of(torch::zeros({}, at::kLong));
  CHECK_THROWS_WITH(sync_batch_norm(x, torch::zeros({3}), torch::ones({3}),
                                    SyncBatchNormFuncOptions(options).num_batches_tracked(count)),
                    Contains("num_batches_tracked is a tensor of zeros without memory"));
}

}  // namespace ddpscope::test::memory_test
