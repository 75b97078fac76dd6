// Batch norm and clipping of tensors on a GPU beside those of LibTorch, called as programs call
// them. Needs a LibTorch for CUDA, which it loads itself. Times are those of the device, with what
// the host holds up; all ways of one case take turns.
//   device_peers [<turns>]
#include <c10/core/impl/VirtualGuardImpl.h>
#include <ddpscope/ops.h>
#include <dlfcn.h>
#include <torch/torch.h>

#include <cstdlib>
#include <exception>

#include "benchmarks/ops/device_timing.h"

namespace {

using namespace ddpscope::benchmark;

struct Layer {
  const char* name;
  std::vector<std::int64_t> sizes;
};

at::Tensor numbers(std::int64_t channels, double value) {
  return torch::full({channels}, value, torch::kCUDA).requires_grad_();
}

using Normalize = std::function<at::Tensor(const at::Tensor&)>;

void add_ways(const std::string& name, const at::Tensor& x, const Normalize& normalize,
              std::vector<Way>& ways) {
  const auto moved = static_cast<double>(x.nbytes());
  const at::Tensor dy = torch::randn_like(x);
  ways.push_back({name + ", forward", 3 * moved, [=](cudaStream_t) { normalize(x); }});
  ways.push_back({name + ", both ways", 8 * moved,
                  [=](cudaStream_t) { torch::autograd::grad({normalize(x)}, {x}, {dy}); }});
}

void compare_norm(const Layer& layer, bool is_rows, Turns& turns) {
  at::Tensor x = torch::randn(layer.sizes, torch::kCUDA).to(at::kBFloat16);
  if (is_rows) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  x.requires_grad_();
  const at::Tensor source = x.detach().clone(), target = torch::empty_like(source);
  const std::int64_t channels = x.size(1);
  const auto weight = numbers(channels, 1), bias = numbers(channels, 0);
  const auto mean = numbers(channels, 0).detach(), variance = numbers(channels, 1).detach();
  std::vector<Way> ways = {
      {"copy", 2.0 * static_cast<double>(x.nbytes()), [=](cudaStream_t) { target.copy_(source); }}};
  add_ways(
      "ddpscope", x,
      [=](const at::Tensor& input) {
        return ddpscope::sync_batch_norm(
            input, mean, variance,
            ddpscope::SyncBatchNormFuncOptions().weight(weight).bias(bias).training(true));
      },
      ways);
  for (const bool cudnn : {false, true}) {
    add_ways(
        cudnn ? "torch, cuDNN" : "torch", x,
        [=](const at::Tensor& input) {
          return torch::batch_norm(input, weight, bias, mean, variance, true, 0.1, 1e-5, cudnn);
        },
        ways);
  }
  turns.measure(std::string(layer.name) + (is_rows ? " channels-last" : ""), ways);
}

void compare_clip(const char* name, int tensors, std::int64_t elements, Turns& turns) {
  std::vector<at::Tensor> parameters, gradients;
  for (int i = 0; i < tensors; ++i) {
    parameters.push_back(torch::empty({elements}, torch::kCUDA));
    parameters.back().mutable_grad() = torch::zeros({elements}, torch::kCUDA);
    gradients.push_back(parameters.back().grad());
  }
  const double moved = 4.0 * static_cast<double>(tensors * elements);
  const at::Tensor source = torch::zeros({tensors * elements}, torch::kCUDA);
  const at::Tensor target = torch::empty_like(source);
  // Of zeros the norm is 0, and the limit below eps scales all.
  constexpr double kLimit = 1e-7;
  turns.measure(name,
                {{"copy", 2 * moved, [=](cudaStream_t) { target.copy_(source); }},
                 {"ddpscope", 3 * moved,
                  [=](cudaStream_t) { ddpscope::clip_grad_norm_(parameters, kLimit); }},
                 {"ddpscope compat", 3 * moved,
                  [=](cudaStream_t) { ddpscope::compat::clip_grad_norm_(parameters, kLimit); }},
                 {"torch::nn::utils", 3 * moved,
                  [=](cudaStream_t) { torch::nn::utils::clip_grad_norm_(parameters, kLimit); }},
                 {"torch, _foreach", 3 * moved, [=](cudaStream_t) {
                    const auto norms = at::_foreach_norm(gradients, 2);
                    const auto total = at::linalg_vector_norm(at::stack(norms), 2);
                    at::_foreach_mul_(gradients, at::clamp_max(kLimit / (total + 1e-6), 1));
                  }}});
}

void compare_all(int number) {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  auto* const stream =
      static_cast<cudaStream_t>(guard.getStream(guard.getDevice()).native_handle());
  Turns turns(stream, number);
  std::printf("%d turns; bytes are those that must move\n", number);
  const std::vector<Layer> layers = {{"64 x 64 x 112^2 bfloat16", {64, 64, 112, 112}},
                                     {"64 x 256 x 14^2 bfloat16", {64, 256, 14, 14}},
                                     {"64 x 2048 x 7^2 bfloat16", {64, 2048, 7, 7}}};
  for (const Layer& layer : layers) {
    for (const bool is_rows : {false, true}) compare_norm(layer, is_rows, turns);
  }
  compare_clip("161 x 158,739 float", 161, 158'739, turns);
  compare_clip("10,000 x 64 float", 10'000, 64, turns);
}

}  // namespace

int main(int argc, char** argv) try {
  const bool is_loaded = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr;
  if (!is_loaded || !torch::cuda::is_available()) {
    std::printf("skipped: %s\n",
                is_loaded ? "there is no GPU" : "this LibTorch is not one for CUDA");
    return 77;
  }
  compare_all(argc > 1 ? std::atoi(argv[1]) : 50);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "device_peers: %s\n", error.what());
  return 1;
}
