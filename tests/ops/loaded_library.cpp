// A program that knows LibTorch alone and loads the operators, as torch.ops.load_library does:
// `loaded_library LIBRARY`. It prints what is wrong.
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {
using Values = std::vector<c10::IValue>;

int failures = 0;

void expect(bool holds, const char* what) {
  if (!holds) std::printf("not so: %s\n", what);
  failures += holds ? 0 : 1;
}

Values call(const char* name, Values stack) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  while (stack.size() < op.schema().arguments().size()) {
    stack.push_back(*op.schema().arguments()[stack.size()].default_value());
  }
  op.callBoxed(&stack);
  return stack;
}

void check_clips() {
  const std::vector<at::Tensor> gradients = {torch::full({4}, 3.F), torch::full({2}, 4.F)};
  const Values clipped = call("ddpscope::clip_grad_norm_", {gradients, 1.0});
  expect(std::abs(clipped[0].toTensor().item<double>() - std::sqrt(68)) < 1e-6, "the norm");
  expect(at::allclose(gradients[0], torch::full({4}, 3 / std::sqrt(68.F))), "what was clipped");
  call("ddpscope::clip_grad_value_", {gradients, 0.1});
  expect(gradients[1].abs().max().item<float>() == 0.1F, "the largest after a limit of 0.1");
}

void check_norm() {
  const at::Tensor input = torch::randn({6, 3, 4}, torch::requires_grad());
  const at::Tensor same = input.detach().clone().requires_grad_();
  const at::Tensor mean = torch::zeros({3}), variance = torch::ones({3});
  const at::Tensor own_mean = mean.clone(), own_variance = variance.clone();
  const Values y = call("ddpscope::sync_batch_norm",
                        {input, c10::IValue(), c10::IValue(), mean, variance, true});
  const at::Tensor expected =
      torch::batch_norm(same, {}, {}, own_mean, own_variance, true, 0.1, 1e-5, false);
  y[0].toTensor().pow(3).sum().backward();
  expected.pow(3).sum().backward();
  expect(at::allclose(y[0].toTensor(), expected, 1e-5, 1e-6), "the output of torch::batch_norm");
  expect(at::allclose(input.grad(), same.grad(), 1e-4, 1e-5), "its gradient");
  expect(at::allclose(variance, own_variance), "its running variance");
}
}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  if (dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) == nullptr) {
    std::puts(dlerror());
    return 1;
  }
  check_clips();
  check_norm();
  return failures == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
