#include "ops/batch_norm/override.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/script.h>

#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::override_test {
namespace {
using batch_norm::LayerOverRanks;
using batch_norm::OperatorCall;
using batch_norm::Override;
using torch::nn::BatchNorm2d;

// The test's ranks are threads: what each finds is its own.
thread_local CommunicatorPtr group_here;
thread_local at::Tensor weight_here;
thread_local int asked_here = 0;

LayerOverRanks find(const OperatorCall& call) {
  ++asked_here;
  const bool is_known = !weight_here.defined() || call.weight.is_same(weight_here);
  return is_known ? LayerOverRanks{"layer", group_here} : LayerOverRanks();
}

bool is_registered() {
  const auto op = c10::Dispatcher::singleton().findSchema({"aten::batch_norm", ""});
  return op->hasKernelForDispatchKey(c10::DispatchKey::AutogradCPU) ||
         op->hasKernelForDispatchKey(c10::DispatchKey::AutogradCUDA);
}

struct Step {
  at::Tensor y, dx, dweight, mean, variance;
};

Step step_of(BatchNorm2d& norm, const at::Tensor& x) {
  const at::Tensor input = x.detach().clone().requires_grad_();
  const at::Tensor y = norm->forward(input);
  (y * y.detach().cos()).sum().backward();
  const at::Tensor dweight = norm->options.affine() ? norm->weight.grad().clone() : at::zeros({1});
  return {y.detach(), input.grad(), dweight, norm->running_mean.clone(), norm->running_var.clone()};
}

bool same(const Step& a, const Step& b) {
  return same_bits(a.y, b.y) && same_bits(a.dx, b.dx) && same_bits(a.dweight, b.dweight) &&
         same_bits(a.mean, b.mean) && same_bits(a.variance, b.variance);
}

at::Tensor batch_of(int rank) { return seeded_randn(10 + rank, {2 + rank, 3, 4, 5}) * 2 + rank; }
}  // namespace

TEST_CASE("a batch norm that is found computes what SyncBatchNorm2d does", "[norm]") {
  const bool affine = GENERATE(true, false);
  const auto options = torch::nn::BatchNorm2dOptions(3).affine(affine).momentum(0.3);
  const auto with_module = on_ranks(2, [&](int rank, const CommunicatorPtr& group) {
    SyncBatchNorm2d norm(options, group, "layer");
    const at::Tensor input = batch_of(rank).requires_grad_();
    const at::Tensor y = norm->forward(input);
    (y * y.detach().cos()).sum().backward();
    return Step{y.detach(), input.grad(), affine ? norm->weight.grad() : at::zeros({1}),
                norm->running_mean, norm->running_var};
  });
  const Override active(find);
  const auto by_operator = on_ranks(2, [&](int rank, const CommunicatorPtr& group) {
    group_here = group;
    BatchNorm2d norm(options);
    return step_of(norm, batch_of(rank));
  });
  for (int rank = 0; rank < 2; ++rank) CHECK(same(with_module[rank], by_operator[rank]));
}

TEST_CASE("a batch norm that is not found has the bits that it has without", "[norm]") {
  const at::Tensor x = batch_of(0);
  BatchNorm2d norm(3), again(3);
  const Step without = step_of(norm, x);
  const Override active(find);
  weight_here = at::zeros({3});
  group_here = make_communicator(0, 2, [](at::Tensor&) { throw std::runtime_error("called"); });
  const int asked = asked_here;
  CHECK(same(without, step_of(again, x)));
  CHECK(asked_here > asked);
  const at::Tensor y = again->forward(x.clone().requires_grad_());
  CHECK(y.grad_fn()->name() == "NativeBatchNormBackward0");
  // An instance norm gives copies of its tensors to a batch norm that trains.
  torch::nn::InstanceNorm2d instance(
      torch::nn::InstanceNorm2dOptions(3).affine(true).track_running_stats(true));
  weight_here = instance->weight;
  CHECK(same_bits(instance->forward(x), torch::instance_norm(x, instance->weight, instance->bias,
                                                             {}, {}, true, 0.1, 1e-5, false)));
  weight_here = at::Tensor();
  group_here = nullptr;
}

TEST_CASE("a group of one and no group run the operator of LibTorch", "[norm]") {
  const at::Tensor x = batch_of(1).requires_grad_();
  const Override active(find);
  group_here = make_communicator(0, 1, [](at::Tensor&) { throw std::runtime_error("called"); });
  CHECK(BatchNorm2d(3)->forward(x).grad_fn()->name() == "NativeBatchNormBackward0");
  group_here = nullptr;
  CHECK(BatchNorm2d(3)->forward(x).grad_fn()->name() == "NativeBatchNormBackward0");
}

TEST_CASE("in evaluation and in InferenceMode no layer is looked for", "[norm]") {
  const Override active(find);
  const int asked = asked_here;
  BatchNorm2d norm(3);
  {
    const c10::InferenceMode inference;
    norm->forward(batch_of(0));
  }
  norm->eval();
  norm->forward(batch_of(0));
  CHECK(asked_here == asked);
  norm->train();
  const at::NoGradGuard no_grad;
  norm->forward(batch_of(0));
  CHECK(asked_here == asked + 1);
}

TEST_CASE("a scripted batch norm is found, too", "[norm]") {
  const Override active(find);
  int sums = 0;
  group_here = make_communicator(0, 2, [&](at::Tensor& record) {
    ++sums;
    record.mul_(2);
  });
  const auto unit = torch::jit::compile(
      "def norm(x, mean, var):\n"
      "  return torch.batch_norm(x, None, None, mean, var, True, 0.1, 1e-5, False)\n");
  const at::Tensor mean = torch::zeros({3});
  unit->run_method("norm", batch_of(0), mean, torch::ones({3}));
  CHECK(sums == 1);
  CHECK(mean.abs().sum().item<double>() > 0);
  group_here = nullptr;
}

TEST_CASE("the operator is LibTorch's own before and after", "[norm]") {
  CHECK(!is_registered());
  {
    const Override active(find);
    CHECK(is_registered());
  }
  CHECK(!is_registered());
  const int asked = asked_here;
  BatchNorm2d(3)->forward(batch_of(0));
  CHECK(asked_here == asked);
}

}  // namespace ddpscope::test::override_test
