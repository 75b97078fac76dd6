#include <torch/csrc/autograd/custom_function.h>

#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::running_values_test {
namespace {

SyncBatchNorm2d make_module(const torch::nn::BatchNormOptions& options) {
  return SyncBatchNorm2d(options);
}

/// Forward without a graph; backward computes it again, as activation checkpointing does.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            SyncBatchNorm2dImpl* norm) {
    context->save_for_backward({x});
    context->saved_data["norm"] = reinterpret_cast<std::int64_t>(norm);
    return norm->forward(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list arriving) {
    const torch::AutoGradMode grad_mode(true);
    auto* const norm = reinterpret_cast<SyncBatchNorm2dImpl*>(context->saved_data["norm"].toInt());
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    norm->forward(x).backward(arriving[0]);
    return {x.grad(), {}};
  }
};

}  // namespace

TEST_CASE("half running values count more values than half can", "[norm]") {
  const auto x = torch::randn({8, 2, 100, 100}, at::kHalf);  // 80000 per channel
  const auto mean = torch::zeros({2}, at::kHalf), variance = torch::ones({2}, at::kHalf);
  sync_batch_norm(x, mean, variance, SyncBatchNormFuncOptions().training(true).momentum(1.0));
  const auto columns = x.to(at::kDouble).movedim(1, 0).reshape({2, -1});
  CHECK(torch::equal(variance, columns.var(1, true).to(at::kHalf)));
}

TEST_CASE("bfloat16 running values are unbiased by the exact count", "[norm]") {
  const auto x = torch::randn({257, 2}, at::kBFloat16) * 9;
  const auto mean = torch::zeros({2}, at::kBFloat16), variance = torch::ones({2}, at::kBFloat16);
  sync_batch_norm(x, mean, variance, SyncBatchNormFuncOptions().training(true).momentum(1.0));
  CHECK(torch::equal(variance, x.to(at::kDouble).var(0, true).to(at::kBFloat16)));
}

TEST_CASE("without momentum the running mean is the mean of the steps", "[norm]") {
  torch::manual_seed(1);
  auto norm = make_module(torch::nn::BatchNormOptions(3).momentum(std::nullopt));
  at::Tensor sum = torch::zeros({3}, at::kDouble);
  for (int step = 0; step < 3; ++step) {
    const auto x = torch::randn({4, 3, 2, 2}) + step;
    norm->forward(x);
    sum += x.to(at::kDouble).mean({0, 2, 3});
  }
  CHECK(error_of(norm->running_mean, sum / 3) < 1e-6);
  CHECK(norm->num_batches_tracked.item<std::int64_t>() == 3);
}

TEST_CASE("a recomputation in backward moves no running value twice", "[norm]") {
  torch::manual_seed(2);
  auto norm = make_module(3), direct = make_module(3);
  const auto x = torch::randn({4, 3, 2, 2}).requires_grad_();
  const auto dy = torch::randn({4, 3, 2, 2});
  Recomputed::apply(x, norm.get()).backward(dy);
  const auto found = x.grad().clone();
  x.mutable_grad() = at::Tensor();
  direct->forward(x).backward(dy);
  CHECK(torch::equal(found, x.grad()));
  CHECK(torch::equal(norm->running_mean, direct->running_mean));
  CHECK(norm->num_batches_tracked.item<std::int64_t>() == 1);
}

TEST_CASE("running values that change between forward and backward do not matter", "[norm]") {
  auto norm = make_module(3);
  const auto x = torch::randn({4, 3, 2, 2}).requires_grad_();
  const auto y = norm->forward(x);
  const auto expected = torch::autograd::grad({y}, {x}, {torch::ones_like(y)}, true)[0];
  {
    const torch::NoGradGuard no_grad;
    norm->running_mean.fill_(7);
    norm->running_var.fill_(7);
  }
  CHECK(torch::equal(torch::autograd::grad({y}, {x}, {torch::ones_like(y)})[0], expected));
}

TEST_CASE("writes to running values are seen by the version counter", "[norm]") {
  auto norm = make_module(3);
  for (const at::Tensor& buffer : norm->buffers()) {
    CAPTURE(buffer.sizes());
    const auto before = buffer._version();
    norm->forward(torch::randn({4, 3, 2, 2}));
    CHECK(buffer._version() > before);
  }
}

TEST_CASE("running values may have gaps, and their counter another dtype", "[norm]") {
  torch::manual_seed(3);
  auto norm = make_module(3);
  const auto both = torch::tensor({{0.F, 1.F}, {0.F, 1.F}, {0.F, 1.F}});
  const auto count = torch::zeros({}, at::kInt);
  for (int step = 0; step < 2; ++step) {
    const auto x = torch::randn({4, 3, 2, 2});
    norm->forward(x);
    sync_batch_norm(x, both.select(1, 0), both.select(1, 1),
                    SyncBatchNormFuncOptions().training(true).num_batches_tracked(count));
  }
  CHECK(torch::equal(both.select(1, 0), norm->running_mean));
  CHECK(torch::equal(both.select(1, 1), norm->running_var));
  CHECK(count.item<int>() == 2);
}

TEST_CASE("a bad argument is named and nothing is changed", "[norm]") {
  using Catch::Matchers::Contains;
  const auto x = torch::randn({4, 3, 2});
  const auto mean = torch::zeros({3}), variance = torch::ones({3});
  const auto count = torch::zeros({}, at::kLong);
  const auto options = [&] {
    return SyncBatchNormFuncOptions().training(true).num_batches_tracked(count).name("bn1");
  };
  const auto run = [&](const at::Tensor& input, const SyncBatchNormFuncOptions& given) {
    return sync_batch_norm(input, mean, variance, given);
  };
  CHECK_THROWS_WITH(run(torch::randn({3}), options()),
                    Contains("sync_batch_norm bn1: input must be (B, C, ...)") && Contains("[3]"));
  CHECK_THROWS_WITH(run(torch::ones({4, 3}, at::kLong), options()), Contains("but is Long"));
  CHECK_THROWS_WITH(run(x, options().weight(torch::ones({4}))),
                    Contains("weight must have the shape [3]") && Contains("Float of shape [4]"));
  CHECK_THROWS_WITH(run(x, options().bias(torch::ones({3}, at::kHalf))),
                    Contains("bias must be Float, Double or of the dtype of input"));
  CHECK_THROWS_WITH(run(x, options().weight(torch::ones({3}, at::kMeta))),
                    Contains("weight must be on the device of input"));
  CHECK_THROWS_WITH(run(x, options().num_batches_tracked(torch::ones({2}))),
                    Contains("num_batches_tracked must be one number"));
  CHECK_THROWS_WITH(run(x, SyncBatchNormFuncOptions().training(true).momentum(std::nullopt)),
                    Contains("without momentum the average needs num_batches_tracked"));
  CHECK_THROWS_WITH(run(x, options().eps(-1)), Contains("eps must be at least 0"));
  CHECK_THROWS_WITH(sync_batch_norm(x, mean, {}, options()),
                    Contains("running_mean is given without running_var"));
  CHECK_THROWS_WITH(run(torch::randn({1, 3}), options()),
                    Contains("sync_batch_norm bn1: one value per channel") && Contains("[1, 3]"));
  CHECK_THROWS_WITH(run(torch::randn({4, 3}, at::kMeta), options()),
                    Contains("input must be on the CPU"));
  CHECK(torch::equal(mean, torch::zeros({3})));
  CHECK(torch::equal(variance, torch::ones({3})));
  CHECK(count.item<std::int64_t>() == 0);
}

TEST_CASE("running values that share memory or are sparse are refused by name", "[norm]") {
  const auto x = torch::randn({4, 3}), both = torch::ones({2, 3});
  const auto training = SyncBatchNormFuncOptions().training(true);
  const auto refused = [&](const at::Tensor& mean, const at::Tensor& variance, const char* text) {
    CHECK_THROWS_WITH(sync_batch_norm(x, mean, variance, training),
                      Catch::Matchers::Contains(text));
    CHECK(torch::equal(both, torch::ones({2, 3})));
  };
  refused(both[0], both[0], "running_mean and running_var share memory");
  refused(both.view(-1).narrow(0, 1, 3), both[1], "running_mean and running_var share memory");
  refused(torch::ones({3}).to_sparse(), both[1], "running_mean must be dense");
  CHECK_NOTHROW(sync_batch_norm(x, both[0], both[1], training));
  const auto columns = torch::ones({3, 2});
  CHECK_NOTHROW(sync_batch_norm(x, columns.select(1, 0), columns.select(1, 1), training));
}

TEST_CASE("running values that require a gradient are refused where LibTorch does", "[norm]") {
  const auto x = torch::randn({4, 3}), variance = torch::ones({3});
  const auto mean = torch::zeros({3}).requires_grad_();
  const auto options = SyncBatchNormFuncOptions();
  const auto training = SyncBatchNormFuncOptions(options).training(true);
  const auto torch_runs = [&] {
    torch::batch_norm(x, {}, {}, mean, variance, /*training=*/true, 0.1, 1e-5, false);
  };
  CHECK_THROWS(torch_runs());
  CHECK_THROWS_WITH(sync_batch_norm(x, mean, variance, training),
                    Catch::Matchers::Contains("running_mean is written and must not require"));
  CHECK(torch::equal(mean, torch::zeros({3})));
  CHECK_NOTHROW(sync_batch_norm(x, mean, variance, options));
  const torch::NoGradGuard no_grad;
  CHECK_NOTHROW(torch_runs());
  CHECK_NOTHROW(sync_batch_norm(x, mean, variance, training));
}

TEST_CASE("running values that overlap themselves are refused, and nothing is changed", "[norm]") {
  const auto x = torch::randn({4, 3}), variance = torch::ones({3});
  const auto counter = torch::zeros({}, torch::kLong);
  const auto options = SyncBatchNormFuncOptions().num_batches_tracked(counter);
  const auto training = SyncBatchNormFuncOptions(options).training(true);
  const auto mean = torch::zeros({1}).expand({3});
  CHECK_THROWS_WITH(sync_batch_norm(x, mean, variance, training),
                    Catch::Matchers::Contains("running_mean has elements that overlap in memory"));
  CHECK(counter.item<std::int64_t>() == 0);
  CHECK(torch::equal(variance, torch::ones({3})));
  CHECK_NOTHROW(sync_batch_norm(x, mean, variance, options));
  CHECK_THROWS_WITH(sync_batch_norm(x, torch::zeros({3}), variance,
                                    SyncBatchNormFuncOptions(training).momentum(NAN)),
                    Catch::Matchers::Contains("momentum must be finite, but is nan"));
}

}  // namespace ddpscope::test::running_values_test
