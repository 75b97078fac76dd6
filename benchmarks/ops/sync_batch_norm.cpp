// Synchronized batch norm of one rank against torch::batch_norm and against a copy of the same
// bytes: forward moves three tensors, backward five. The three take turns; medians, or another
// quantile where other programs disturb.
#include <ATen/Parallel.h>
#include <ddpscope/ops.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

struct Layer {
  std::vector<std::int64_t> sizes;
  bool channels_last = false;
};

double microseconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

/// What this share of the numbers lies below: 0.5 is the median.
double quantile = 0.5;

double typical(std::vector<double>& numbers) {
  const auto index = static_cast<std::ptrdiff_t>(quantile * static_cast<double>(numbers.size()));
  std::nth_element(numbers.begin(), numbers.begin() + index, numbers.end());
  return numbers[static_cast<std::size_t>(index)];
}

/// One way to normalize: forward and backward of one layer.
struct Contestant {
  std::function<at::Tensor(const at::Tensor& x)> forward;
  std::vector<double> forward_us{}, backward_us{};

  void run(const at::Tensor& x, const at::Tensor& dy) {
    at::Tensor y;
    forward_us.push_back(microseconds_of([&] { y = forward(x); }));
    backward_us.push_back(microseconds_of([&] { torch::autograd::grad({y}, {x}, {dy}); }));
  }
};

struct Norm {
  explicit Norm(std::int64_t channels)
      : weight(torch::ones({channels}).requires_grad_()),
        bias(torch::zeros({channels}).requires_grad_()),
        mean(torch::zeros({channels})),
        variance(torch::ones({channels})) {}
  at::Tensor weight, bias, mean, variance;
};

Contestant make_ours(std::int64_t channels) {
  const Norm norm(channels);
  return {[norm](const at::Tensor& x) {
    return ddpscope::sync_batch_norm(
        x, norm.mean, norm.variance,
        ddpscope::SyncBatchNormFuncOptions().weight(norm.weight).bias(norm.bias).training(true));
  }};
}

Contestant make_theirs(std::int64_t channels) {
  const Norm norm(channels);
  return {[norm](const at::Tensor& x) {
    return torch::batch_norm(x, norm.weight, norm.bias, norm.mean, norm.variance, true, 0.1, 1e-5,
                             false);
  }};
}

std::string described(const Layer& layer, const at::Tensor& x) {
  std::string text;
  for (const std::int64_t size : layer.sizes)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  text += layer.channels_last ? " channels-last" : "";
  return text + " " + std::string(c10::toString(x.scalar_type()));
}

void compare(const Layer& layer, at::ScalarType dtype, int repeats) {
  at::Tensor x = torch::randn(layer.sizes).to(dtype);
  at::Tensor dy = torch::randn(layer.sizes).to(dtype);
  if (layer.channels_last) {
    x = x.contiguous(at::MemoryFormat::ChannelsLast);
    dy = dy.contiguous(at::MemoryFormat::ChannelsLast);
  }
  const at::Tensor target = torch::empty_like(x);
  const at::Tensor source = x.clone();
  x.requires_grad_();
  Contestant ours = make_ours(x.size(1)), theirs = make_theirs(x.size(1));
  std::vector<double> copies;
  for (int i = 0; i < repeats + 3; ++i) {
    if (i == 3)
      ours.forward_us = ours.backward_us = theirs.forward_us = theirs.backward_us = copies = {};
    ours.run(x, dy);
    theirs.run(x, dy);
    copies.push_back(microseconds_of([&] { target.copy_(source); }));
  }
  const double copy = typical(copies);
  const double forward = typical(ours.forward_us), backward = typical(ours.backward_us);
  const double their_forward = typical(theirs.forward_us);
  const double their_backward = typical(theirs.backward_us);
  std::printf("| %s | %d | %.0f | %.0f | %.2f | %.0f | %.0f | %.2f | %.2f | %.2f |\n",
              described(layer, x).c_str(), at::get_num_threads(), forward, their_forward,
              forward / their_forward, backward, their_backward, backward / their_backward,
              1.5 * copy / forward, 2.5 * copy / backward);
}

}  // namespace

// sync_batch_norm [<repeats> [<quantile>]]
int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 30;
  if (argc > 2) quantile = std::atof(argv[2]);
  const std::vector<Layer> layers = {
      {{32, 64, 56, 56}}, {{32, 64, 56, 56}, true}, {{64, 256, 14, 14}}, {{64, 256, 14, 14}, true},
      {{64, 512, 7, 7}},  {{16, 32, 7, 7}},         {{4096, 1024}},      {{128, 33, 28, 28}, true}};
  std::printf(
      "quantile %.2f of %d runs, us; ratio to torch; floor: share of the rate of a copy\n\n",
      quantile, repeats);
  std::printf(
      "| layer | threads | forward | torch | ratio | backward | torch | ratio | forward "
      "floor | backward floor |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      for (const Layer& layer : layers) compare(layer, dtype, repeats);
    }
  }
}
