#include <limits>

#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::hard_numbers_test {
namespace {

/// One channel over two ranks whose values are exact in the dtype, so that the oracle sees them.
NormCase case_of(const at::Tensor& x) {
  NormCase norm;
  const std::int64_t first = x.size(0) / 3;
  norm.inputs = {x.narrow(0, 0, first).clone(), x.narrow(0, first, x.size(0) - first).clone()};
  for (const at::Tensor& input : norm.inputs) {
    norm.gradients.push_back(torch::randn_like(input));
  }
  return norm;
}

double variance_error(const NormCase& norm) {
  const auto found = run_case(norm), expected = oracle_of(norm);
  const auto of_batch = [](const at::Tensor& running) { return running.to(at::kDouble) - 0.9; };
  return error_of(of_batch(found[0].running_var), of_batch(expected[0].running_var));
}

}  // namespace

TEST_CASE("a mean far above the deviation costs few digits", "[norm]") {
  const auto dtype = GENERATE(at::kFloat, at::kDouble);
  const auto ratio = GENERATE(1e3, 1e4);
  const auto channels = GENERATE(1, 40);
  torch::manual_seed(1);
  auto norm = case_of((torch::randn({3000, channels}, at::kDouble) + ratio).to(dtype));
  norm.running_dtype = at::kDouble;
  CHECK(variance_error(norm) < (dtype == at::kDouble ? 1e-11 : 6e-6));
  const auto found = run_case(norm), expected = oracle_of(norm);
  // One float for the mean would be off by 6e-8 * 1e4 = 6e-4 here.
  CHECK(error_of(found[1].y, expected[1].y) < (dtype == at::kDouble ? 1e-11 : 4e-6));
  CHECK(error_of(found[1].dx, expected[1].dx) < 1e-5);
}

TEST_CASE("an outlier at either end of a tile does not spoil the variance", "[norm]") {
  const auto at = GENERATE(0, 16383, 16384, 32767);
  torch::manual_seed(2);
  auto x = torch::randn({1, 1, 32768});
  x[0][0][at] = 1e6;
  NormCase norm;
  norm.inputs = {x};
  norm.gradients = {torch::randn_like(x)};
  norm.running_dtype = at::kDouble;
  CHECK(variance_error(norm) < 1e-6);
}

TEST_CASE("a constant channel becomes its bias", "[norm]") {
  const auto value = GENERATE(0.0, 3.0, 1e4);
  auto norm = case_of(torch::full({1000, 3}, value));
  norm.bias = torch::randn({3});
  norm.running_dtype = at::kDouble;
  const auto found = run_case(norm);
  CHECK(error_of(found[0].y, norm.bias.to(at::kDouble).expand_as(found[0].y)) < 1e-4);
  CHECK((found[0].running_var - 0.9).abs().max().item<double>() < 1e-7);
}

TEST_CASE("small variances keep their digits", "[norm]") {
  const auto deviation = GENERATE(1e-6, 1e-4, 1e-3);
  const auto eps = GENERATE(1e-5, 1e-3);
  torch::manual_seed(3);
  auto norm = case_of((torch::randn({2000, 3}, at::kDouble) * deviation).to(at::kFloat));
  norm.eps = eps;
  norm.running_dtype = at::kDouble;
  const auto found = run_case(norm), expected = oracle_of(norm);
  const auto of_batch = [](const at::Tensor& running) { return (running - 0.9) * 10; };
  const auto batch_variance = of_batch(expected[0].running_var).abs().max().item<double>();
  const auto difference =
      (of_batch(found[0].running_var) - of_batch(expected[0].running_var)).abs().max();
  CHECK(difference.item<double>() < 1e-6 * batch_variance + 3e-15);
  CHECK(error_of(found[0].y, expected[0].y) < 2e-6);
}

TEST_CASE("NaN and Inf stay in their channel and reach every rank", "[norm]") {
  const auto bad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  const auto channels_last = GENERATE(false, true);
  const auto dtype = GENERATE(at::kHalf, at::kFloat);
  torch::manual_seed(4);
  auto norm = make_case(
      {.samples = {2, 3}, .shape = {33, 3, 3}, .dtype = dtype, .channels_last = channels_last});
  norm.inputs[1].select(1, 17)[0][1][1] = bad;
  for (const NormOutcome& rank : run_case(norm)) {
    const auto is_bad = rank.y.movedim(1, 0).reshape({33, -1}).isnan().any(1);
    CHECK(is_bad[17].item<bool>());
    CHECK(is_bad.sum().item<std::int64_t>() == 1);
    CHECK(rank.dx.movedim(1, 0).reshape({33, -1}).isnan().any(1).sum().item<std::int64_t>() == 1);
  }
}

TEST_CASE("planes of any length are normalised", "[norm]") {
  const auto length = GENERATE(1, 9, 16, 17, 25, 31, 32, 33, 49, 255, 257);
  const auto dtype = GENERATE(at::kBFloat16, at::kFloat);
  torch::manual_seed(5);
  check_outcomes(make_case({.samples = {5, 7}, .shape = {3, length}, .dtype = dtype}));
}

TEST_CASE("a constant channel without eps becomes its bias and has no gradient, as with torch",
          "[norm]") {
  const auto channels_last = GENERATE(false, true);
  auto norm = make_case({.shape = {3, 4, 4}, .channels_last = channels_last});
  for (const at::Tensor& input : norm.inputs) input.select(1, 1).fill_(2);
  norm.eps = 0;
  const auto found = run_case(norm), expected = oracle_of(norm);
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    CHECK(error_of(found[rank].y, expected[rank].y) < 2e-6);
    CHECK(error_of(found[rank].dx, expected[rank].dx) < 1e-5);
    CHECK(found[rank].dx.select(1, 1).abs().max().item<double>() == 0);
    CHECK(found[rank].dweight[1].item<double>() == 0);
  }
}

TEST_CASE("a constant channel without eps has second derivatives of zero", "[norm]") {
  const auto x = torch::full({4, 2}, 3.F).requires_grad_();
  const auto options = SyncBatchNormFuncOptions().training(true).eps(0);
  const auto loss = sync_batch_norm(x, {}, {}, options).pow(3).sum();
  const auto first = torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true)[0];
  const auto second = torch::autograd::grad({first.square().sum()}, {x})[0];
  CHECK(torch::equal(second, torch::zeros({4, 2})));
}

TEST_CASE("a running variance of zero without eps leads away from the mean", "[norm]") {
  const auto x = torch::tensor({{1.0F, -1.0F, 0.5F}});
  const auto y = sync_batch_norm(x, torch::full({3}, 0.5), torch::zeros({3}),
                                 SyncBatchNormFuncOptions().training(false).eps(0));
  CHECK(y[0][0].item<float>() == std::numeric_limits<float>::infinity());
  CHECK(y[0][1].item<float>() == -std::numeric_limits<float>::infinity());
  CHECK(y[0][2].isnan().item<bool>());
}

}  // namespace ddpscope::test::hard_numbers_test
