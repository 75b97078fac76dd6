// The operators as programs call them, with tensors on a GPU. Needs a LibTorch for CUDA, which the
// program loads itself.
#include <ddpscope/ops.h>
#include <torch/torch.h>

#undef CHECK
#include "tests/support/catch.h"
#include "tests/support/gpu_program.h"

namespace ddpscope::test {
namespace {
double error_of(const at::Tensor& found, const at::Tensor& expected) {
  const auto wide = found.detach().cpu().to(at::kDouble);
  return ((wide - expected).abs().max() / expected.abs().max()).item<double>();
}

/// Gradients of input, weight and bias, and those of the sum of the squares of the first.
struct Derivatives {
  at::Tensor y, x, weight, bias, second;
};

template <class Normalize>
Derivatives derivatives_of(const at::Tensor& input, const at::Tensor& scale,
                           const Normalize& normalize) {
  const auto x = input.clone().requires_grad_(), weight = scale.clone().requires_grad_();
  const auto bias = torch::zeros_like(scale).requires_grad_();
  const auto y = normalize(x, weight, bias);
  const auto first = torch::autograd::grad({y.pow(3).sum()}, {x, weight, bias}, {}, true, true);
  const auto second = torch::autograd::grad({first[0].square().sum()}, {x});
  return {y, first[0].detach(), first[1].detach(), first[2].detach(), second[0]};
}

std::vector<at::Tensor> parameters_on(const at::Device& device) {
  torch::manual_seed(3);
  std::vector<at::Tensor> parameters;
  for (const std::int64_t size : {1, 5000, 17, 100'000}) {
    parameters.push_back(torch::empty({size}).to(device));
    parameters.back().mutable_grad() = torch::randn({size}).to(device);
  }
  return parameters;
}

}  // namespace

TEST_CASE("Batch norm of a tensor on a GPU is differentiated twice as on the CPU", "[gpu]") {
  require_gpu();
  torch::manual_seed(1);
  const auto x = torch::randn({6, 20, 9, 9}, at::kDouble), weight = torch::rand({20}, at::kDouble);
  const auto expected = derivatives_of(x, weight, [](const auto& in, const auto& w, const auto& b) {
    return torch::batch_norm(in, w, b, {}, {}, true, 0.1, 1e-5, false);
  });
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto found = derivatives_of(
        x.to(torch::kCUDA).contiguous(format), weight.to(torch::kCUDA),
        [](const auto& in, const auto& w, const auto& b) {
          return sync_batch_norm(in, {}, {},
                                 SyncBatchNormFuncOptions().weight(w).bias(b).training(true));
        });
    CHECK(found.y.is_contiguous(format));
    CHECK(error_of(found.y, expected.y.detach()) < 1e-12);
    CHECK(error_of(found.x, expected.x) < 1e-11);
    CHECK(error_of(found.weight, expected.weight) < 1e-11);
    CHECK(error_of(found.bias, expected.bias) < 1e-11);
    CHECK(error_of(found.second, expected.second) < 1e-10);
  }
}

TEST_CASE("A module on a GPU trains and evaluates without a wait", "[gpu]") {
  require_gpu();
  SyncBatchNorm2d norm(torch::nn::BatchNorm2dOptions(16).momentum(std::nullopt));
  torch::nn::BatchNorm2d theirs(torch::nn::BatchNorm2dOptions(16).momentum(std::nullopt));
  norm->to(torch::kCUDA);
  const auto x = torch::randn({4, 16, 8, 8});
  const auto there = x.to(torch::kCUDA).requires_grad_();
  norm->forward(there).sum().backward();
  const int before = waits.load();
  for (int i = 0; i < 3; ++i) norm->forward(there).sum().backward();
  CHECK(waits.load() == before);
  for (int i = 0; i < 4; ++i) theirs->forward(x);
  CHECK(error_of(norm->running_var, theirs->running_var.to(at::kDouble)) < 1e-6);
  CHECK(norm->num_batches_tracked.item<std::int64_t>() == 4);
  norm->eval();
  theirs->eval();
  CHECK(error_of(norm->forward(there), theirs->forward(x).detach().to(at::kDouble)) < 2e-6);
}

TEST_CASE("Gradients on a GPU are clipped without a wait, and as on the CPU", "[gpu]") {
  require_gpu();
  const auto here = parameters_on(torch::kCPU), there = parameters_on(torch::kCUDA);
  clip_grad_norm_(there, HUGE_VAL);
  const int before = waits.load();
  const auto found = clip_grad_norm_(there, 1);
  CHECK(waits.load() == before);
  const auto expected = clip_grad_norm_(here, 1);
  CHECK(found.total_norm.is_cuda());
  CHECK(found.total_norm_value() == Approx(expected.total_norm_value()).epsilon(1e-13));
  CHECK(compat::clip_grad_norm_(there, 0.5) == Approx(1).epsilon(1e-6));
  compat::clip_grad_norm_(here, 0.5);
  clip_grad_value_(there, 1e-3);
  clip_grad_value_(here, 1e-3);
  for (std::size_t i = 0; i < here.size(); ++i) {
    CHECK(torch::allclose(there[i].grad().cpu(), here[i].grad(), 1e-5, 0));
  }
}

TEST_CASE("A list on CPU and GPU is clipped by one norm, with one wait", "[gpu]") {
  require_gpu();
  const auto here = parameters_on(torch::kCPU);
  auto mixed = parameters_on(torch::kCUDA);
  mixed[1] = parameters_on(torch::kCPU)[1];
  const auto expected = clip_grad_norm_(here, 1);
  const int before = waits.load();
  const auto found = clip_grad_norm_(mixed, 1);
  CHECK(waits.load() == before + 1);
  CHECK(found.total_norm.is_cuda());
  CHECK(found.total_norm_value() == Approx(expected.total_norm_value()).epsilon(1e-13));
  CHECK(compat::clip_grad_norm_(mixed, 0.5) == Approx(1).epsilon(1e-6));
  compat::clip_grad_norm_(here, 0.5);
  mixed[1].mutable_grad()[7] = NAN;
  CHECK(clip_grad_value_(mixed, 1e-3).nan_counts.cpu()[1].item<std::int64_t>() == 1);
  here[1].mutable_grad()[7] = NAN;
  clip_grad_value_(here, 1e-3);
  for (std::size_t i = 0; i < here.size(); ++i) {
    CHECK(torch::allclose(mixed[i].grad().cpu(), here[i].grad(), 1e-5, 0, /*equal_nan=*/true));
  }
}

TEST_CASE("A scaler of losses follows its gradients to the GPU", "[gpu]") {
  require_gpu();
  const auto parameter = torch::ones({100}, torch::kCUDA).requires_grad_();
  torch::optim::SGD optimizer({parameter}, 0.1);
  GradScaler scaler({.init_scale = 1024});
  for (const double factor : {1.0, double{NAN}, 1.0}) {
    optimizer.zero_grad();
    scaler.scale((parameter * factor).sum()).backward();
    scaler.unscale_and_clip_({parameter}, 1);
    CHECK(scaler.step(optimizer) == (factor == 1));
    scaler.update();
  }
  CHECK(scaler.state().scale == 512);
  CHECK(parameter.isfinite().all().item<bool>());
}

}  // namespace ddpscope::test
