#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <execinfo.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "stacks/capture.h"

// Exits 0 if every stack below LibTorch's operators, of the forward and of the backward on this
// thread, is the one that backtrace finds.
namespace {

int looks = 0;
int different = 0;
std::size_t deepest = 0;

std::unique_ptr<at::ObserverContext> compare(const at::RecordFunction&) {
  std::array<void*, 200> ours{};
  std::array<void*, 200> theirs{};
  const ddpscope::CapturedStack stack = ddpscope::capture_stack(ours);
  const auto count = std::ptrdiff_t(backtrace(theirs.data(), int(theirs.size())));
  const bool same =
      stack.complete && std::equal(ours.begin() + 1, ours.begin() + std::ptrdiff_t(stack.frames),
                                   theirs.begin() + 1, theirs.begin() + count);
  ++looks;
  different += same ? 0 : 1;
  deepest = std::max(deepest, stack.frames);
  return nullptr;
}

}  // namespace

int main() {
  at::set_num_threads(1);
  at::addGlobalCallback(at::RecordFunctionCallback(compare));
  torch::nn::Linear layer(8, 4);
  const at::Tensor input = at::randn({3, 8}).requires_grad_();
  const at::Tensor image = at::randn({1, 3, 8, 8}).requires_grad_();
  const at::Tensor kernel = at::randn({2, 3, 3, 3}).requires_grad_();
  const at::Tensor loss =
      at::softmax(layer->forward(input), 1).log().sum() + at::conv2d(image, kernel).pow(2).sum();
  loss.backward();
  std::printf("%d stacks of up to %zu frames, %d differ\n", looks, deepest, different);
  return different == 0 && looks > 30 && deepest > 15 ? 0 : 1;
}
