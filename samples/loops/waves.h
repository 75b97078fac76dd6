#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace loops {

constexpr std::int64_t kInputs = 12;
constexpr std::int64_t kWidth = 48;

struct WavesImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor hidden = torch::relu(in(x));
    std::this_thread::sleep_for(pause);
    return out(leaves_middle_out ? hidden : torch::relu(middle(hidden)));
  }
  bool leaves_middle_out = false;
  std::chrono::milliseconds pause{0};
  torch::nn::Linear in = register_module("in", torch::nn::Linear(kInputs, kWidth));
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kWidth, 1));
};
TORCH_MODULE(Waves);

}  // namespace loops
