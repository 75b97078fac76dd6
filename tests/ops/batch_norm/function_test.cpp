#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::function_test {
namespace {

using Shape = std::vector<std::int64_t>;

at::Tensor plain(const at::Tensor& input, const SyncBatchNormFuncOptions& options) {
  return sync_batch_norm(input, {}, {}, options);
}

}  // namespace

TEST_CASE("every shape, layout and dtype equals one batch in double", "[norm]") {
  const auto dtype = GENERATE(at::kHalf, at::kBFloat16, at::kFloat, at::kDouble);
  const auto channels_last = GENERATE(false, true);
  const auto shape = GENERATE(Shape{1}, Shape{33}, Shape{257}, Shape{100, 225}, Shape{3, 7, 7},
                              Shape{32, 14, 14}, Shape{64, 1, 1}, Shape{3, 112, 112},
                              Shape{33, 3, 5, 3}, Shape{1, 15, 15}, Shape{17, 2});
  torch::manual_seed(1);
  check_outcomes(make_case(
      {.samples = {3, 2}, .shape = shape, .dtype = dtype, .channels_last = channels_last}));
}

TEST_CASE("many samples fill several tiles of planes and of rows", "[norm]") {
  const auto channels_last = GENERATE(false, true);
  const auto shape = GENERATE(Shape{3, 49}, Shape{5, 196}, Shape{2, 20000}, Shape{300, 3});
  torch::manual_seed(2);
  check_outcomes(
      make_case({.samples = {400, 211}, .shape = shape, .channels_last = channels_last}));
}

TEST_CASE("options without weight, running values or momentum equal torch's", "[norm]") {
  torch::manual_seed(3);
  SECTION("no weight and no bias") { check_outcomes(make_case({.affine = false})); }
  SECTION("a weight alone") {
    auto norm = make_case({});
    norm.bias = at::Tensor();
    check_outcomes(norm);
  }
  SECTION("no running values") {
    auto norm = make_case({});
    norm.tracks = false;
    check_outcomes(norm);
  }
  SECTION("no momentum: the first average is the value") {
    auto norm = make_case({});
    norm.momentum = std::nullopt;
    check_outcomes(norm);
  }
  SECTION("half parameters") {
    auto norm = make_case({.dtype = at::kHalf});
    norm.weight = norm.weight.to(at::kHalf);
    const auto found = run_case(norm);
    CHECK(found[0].dweight.scalar_type() == at::kHalf);
    CHECK(error_of(found[0].y, oracle_of(norm)[0].y) < 1e-3);
  }
}

TEST_CASE("one to eight ranks agree with one batch in every way of exchange", "[norm]") {
  const auto ranks = GENERATE(1, 2, 3, 5, 8);
  const auto exchange = GENERATE(ExchangeMode::kSum, ExchangeMode::kGather, ExchangeMode::kAuto);
  torch::manual_seed(4);
  Batches batches;
  batches.samples.clear();
  for (int rank = 0; rank < ranks; ++rank) batches.samples.push_back(rank + 2);
  auto norm = make_case(batches);
  norm.exchange = exchange;
  check_outcomes(norm);
}

TEST_CASE("unequal and empty ranks count by their values", "[norm]") {
  const auto dtype = GENERATE(at::kHalf, at::kFloat, at::kDouble);
  const auto samples = GENERATE(Shape{0, 1, 7}, Shape{5, 0, 0}, Shape{0, 0, 2, 0}, Shape{1, 9});
  torch::manual_seed(5);
  check_outcomes(make_case({.samples = samples, .shape = {33, 7}, .dtype = dtype}));
}

TEST_CASE("a rank that is empty in every other step stays in step", "[norm]") {
  torch::manual_seed(6);
  const auto counts = on_ranks(2, [](int rank, const CommunicatorPtr& group) {
    SyncBatchNorm1d norm(torch::nn::BatchNormOptions(8), group);
    norm->to(at::kHalf);
    for (int step = 0; step < 50; ++step) {
      const bool is_empty = rank == 1 && step % 2 == 1;
      const auto x = torch::randn({is_empty ? 0 : 4, 8}, at::kHalf).requires_grad_();
      norm->forward(x).sum().backward();
      if (!norm->weight.grad().defined()) return -1.0;
    }
    return norm->num_batches_tracked.item<double>();
  });
  CHECK(counts == std::vector<double>{50, 50});
}

TEST_CASE("ranks that are all empty change nothing", "[norm]") {
  auto norm = make_case({.samples = {0, 0}});
  for (const NormOutcome& rank : run_case(norm)) {
    CHECK(rank.y.sizes() == norm.inputs[0].sizes());
    CHECK(torch::equal(rank.running_var, torch::ones({5})));
    CHECK(torch::equal(rank.dweight, torch::zeros({5})));
    CHECK(rank.count.item<std::int64_t>() == 0);
  }
}

TEST_CASE("one value in two ranks gives the bias and keeps the variance", "[norm]") {
  auto norm = make_case({.samples = {1, 0}, .shape = {5}});
  const auto found = run_case(norm);
  CHECK(torch::equal(found[0].y[0], norm.bias));
  CHECK(torch::equal(found[1].running_var, torch::ones({5})));
  CHECK(error_of(found[1].running_mean, norm.inputs[0][0].to(at::kDouble) * 0.1) < 1e-6);
}

TEST_CASE("evaluation reads the running values and exchanges nothing", "[norm]") {
  const auto x = torch::randn({4, 5, 3}, at::kDouble).requires_grad_();
  const auto mean = torch::randn({5}, at::kDouble), variance = torch::rand({5}, at::kDouble) + 0.5;
  const auto kept = variance.clone();
  const auto group = make_communicator(0, 2, [](at::Tensor&) { FAIL("nothing is exchanged"); });
  const auto y = sync_batch_norm(x, mean, variance, SyncBatchNormFuncOptions().communicator(group));
  const auto expected = torch::batch_norm(x, {}, {}, mean, variance, false, 0.1, 1e-5, false);
  CHECK(error_of(y, expected.detach()) < 1e-14);
  CHECK(torch::equal(kept, variance));
  const auto dy = torch::randn_like(x);
  CHECK(error_of(torch::autograd::grad({y}, {x}, {dy})[0],
                 torch::autograd::grad({expected}, {x}, {dy})[0]) < 1e-14);
}

TEST_CASE("evaluation without running values is local", "[norm]") {
  const auto x = torch::randn({4, 5}, at::kDouble);
  const auto group = make_communicator(0, 2, [](at::Tensor&) { FAIL("nothing is exchanged"); });
  const auto y = plain(x, SyncBatchNormFuncOptions().communicator(group));
  CHECK(error_of(y, torch::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false)) < 1e-13);
}

TEST_CASE("any strides give the values of the contiguous tensor", "[norm]") {
  torch::manual_seed(7);
  const auto base = torch::randn({6, 8, 10, 12});
  const auto x = GENERATE_REF(base.slice(3, 1, 9, 2), base.transpose(2, 3), base.transpose(0, 1),
                              base.narrow(3, 1, 11), base.slice(1, 0, 1).expand({6, 4, 10, 12}),
                              base.contiguous(at::MemoryFormat::ChannelsLast).narrow(2, 1, 5),
                              base.contiguous(at::MemoryFormat::ChannelsLast));
  const auto input = x.detach().requires_grad_();
  const auto y = plain(input, SyncBatchNormFuncOptions().training(true));
  const auto dense = x.detach().clone(at::MemoryFormat::Contiguous).requires_grad_();
  const auto expected = plain(dense, SyncBatchNormFuncOptions().training(true));
  CHECK(error_of(y, expected.detach().to(at::kDouble)) < 1e-6);
  CHECK(y.suggest_memory_format() == x.suggest_memory_format());
  const auto dy = GENERATE(0, 1, 2);
  at::Tensor gradient = torch::randn_like(expected).contiguous();
  if (dy == 1) gradient = gradient.contiguous(at::MemoryFormat::ChannelsLast);
  if (dy == 2) gradient = gradient.narrow(0, 0, 1).expand_as(y);
  y.backward(gradient);
  expected.backward(gradient.contiguous());
  CHECK(error_of(input.grad(), dense.grad().to(at::kDouble)) < 1e-5);
}

}  // namespace ddpscope::test::function_test
