// Training on a GPU, as users write it. Needs a LibTorch for CUDA, which the program loads itself.
#include <ddpscope/ops.h>

#include <cmath>

#include "tests/support/gpu_program.h"
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
/// Steps of a network on the GPU.
struct Loop {
  Loop() {
    net->to(torch::kCUDA);
    attach_diagnostics(net, quiet());
  }
  at::Tensor loss() { return net->forward(torch::randn({5, 8}, torch::kCUDA)).square().mean(); }
  void step(double factor = 1) {
    optimizer.zero_grad();
    (loss() * factor).backward();
    optimizer.step();
  }

  Net net;
  torch::optim::SGD optimizer{net->parameters(), 0.01};
};

TEST_CASE("A gradient that is not finite on a GPU is found one step later") {
  require_gpu();
  Loop loop;
  for (int i = 0; i < 3; ++i) loop.step();
  loop.step(NAN);
  torch::cuda::synchronize();  // the values are there; the next backward asks for them
  loop.step();
  const auto found = findings();
  const Finding* const gradient = find(found, "numeric-nonfinite-gradient");
  REQUIRE(gradient != nullptr);
  CHECK(gradient->step == 4);
  CHECK(gradient->severity == "error");
}

TEST_CASE("A step on a GPU that the program skips is no finding of a step") {
  require_gpu();
  Loop loop;
  for (int i = 0; i < 6; ++i) {
    loop.optimizer.zero_grad();
    (loop.loss() * (i == 3 ? NAN : 1.0)).backward();
    if (i != 3) loop.optimizer.step();
  }
  torch::cuda::synchronize();
  const auto found = findings();
  const Finding* const gradient = find(found, "numeric-nonfinite-gradient");
  CHECK((gradient == nullptr || gradient->severity == "note"));
}

TEST_CASE("Finite training on a GPU is silent and waits no more than without ddpscope") {
  require_gpu();
  Loop loop;
  for (int i = 0; i < 5; ++i) loop.step();
  torch::cuda::synchronize();
  const int before = waits.load();
  for (int i = 0; i < 20; ++i) loop.step();
  CHECK(waits.load() == before);
  check_silent();
}

TEST_CASE("Gradients that add up over several backwards on a GPU are told once") {
  require_gpu();
  Loop loop;
  for (int i = 0; i < 5; ++i) {
    loop.optimizer.zero_grad();
    (loop.loss() * (i == 2 ? NAN : 1.0)).backward();
    loop.loss().backward();
    loop.optimizer.step();
    torch::cuda::synchronize();
  }
  const auto found = findings();
  const Finding* const gradient = find(found, "numeric-nonfinite-gradient");
  REQUIRE(gradient != nullptr);
  CHECK(gradient->step == 3);
}

TEST_CASE("Layers on a GPU send the ranks nothing that NCCL does not reach") {
  require_gpu();
  int sums = 0, on_gpu = 0;
  set_batch_norm_communicator(make_communicator(0, 2, [&](at::Tensor& record) {
    ++sums;
    on_gpu += record.is_cuda();
    record.mul_(2);  // another rank with the same batches
  }));
  Options options = quiet();
  options.sync_batch_norm = true;
  torch::nn::BatchNorm2d norm(3);
  norm->to(torch::kCUDA);
  attach_diagnostics(norm, options);
  norm->forward(torch::randn({4, 3, 5, 5}, torch::kCUDA)).square().sum().backward();
  CHECK(sums == 3);  // the list of layers, forward and backward
  CHECK(on_gpu == 3);
  set_batch_norm_communicator(nullptr);
}

}  // namespace
}  // namespace ddpscope::test
