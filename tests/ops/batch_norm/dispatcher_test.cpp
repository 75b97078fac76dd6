// The operator as other languages find it: by name, through the dispatcher.
#include <ATen/core/dispatch/Dispatcher.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::dispatcher_test {
namespace {
using Catch::Matchers::Contains;

struct Operands {
  at::Tensor x, weight, bias, mean, variance;
};

Operands operands_of(int rank) {
  return {seeded_randn(rank + 1, {3 + rank, 2, 3}, at::kDouble).requires_grad_(),
          torch::tensor({2., 3.}, at::kDouble).requires_grad_(),
          torch::tensor({-1., 1.}, at::kDouble).requires_grad_(), torch::zeros({2}, at::kDouble),
          torch::ones({2}, at::kDouble)};
}

at::Tensor call(const Operands& operands, const std::string& group, bool training = true) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("ddpscope::sync_batch_norm", "");
  std::vector<c10::IValue> stack = {
      operands.x, operands.weight, operands.bias, operands.mean, operands.variance, training, 0.2,
      1e-4,       group,           "layer"};
  op.callBoxed(&stack);
  return stack[0].toTensor();
}

std::string name_of(int rank) { return "ranks as threads " + std::to_string(rank); }
}  // namespace

TEST_CASE("ddpscope::sync_batch_norm runs over a registered communicator, with its graph",
          "[norm]") {
  const auto by_function = on_ranks(2, [](int rank, const CommunicatorPtr& group) {
    const Operands operands = operands_of(rank);
    const at::Tensor y = sync_batch_norm(operands.x, operands.mean, operands.variance,
                                         SyncBatchNormFuncOptions()
                                             .weight(operands.weight)
                                             .bias(operands.bias)
                                             .training(true)
                                             .momentum(0.2)
                                             .eps(1e-4)
                                             .communicator(group)
                                             .name("layer"));
    y.square().sum().backward();
    return std::pair(y.detach(), operands);
  });
  const auto by_name = on_ranks(2, [](int rank, const CommunicatorPtr& group) {
    register_communicator(name_of(rank), group);
    const Operands operands = operands_of(rank);
    const at::Tensor y = call(operands, name_of(rank));
    y.square().sum().backward();
    register_communicator(name_of(rank), nullptr);
    return std::pair(y.detach(), operands);
  });
  for (int rank = 0; rank < 2; ++rank) {
    const Operands &a = by_function[rank].second, &b = by_name[rank].second;
    CHECK(same_bits(by_function[rank].first, by_name[rank].first));
    CHECK(same_bits(a.x.grad(), b.x.grad()));
    CHECK(same_bits(a.weight.grad(), b.weight.grad()));
    CHECK(same_bits(a.bias.grad(), b.bias.grad()));
    CHECK(same_bits(a.mean, b.mean));
    CHECK(same_bits(a.variance, b.variance));
  }
}

TEST_CASE("ddpscope::sync_batch_norm without a group is of this rank alone", "[norm]") {
  const Operands operands = operands_of(0);
  const at::Tensor y = call(operands, "");
  const Operands again = operands_of(0);
  CHECK(error_of(y, torch::batch_norm(again.x, again.weight, again.bias, again.mean, again.variance,
                                      true, 0.2, 1e-4, false)) < 1e-12);
  const at::Tensor fixed = call(operands, "no such group", /*training=*/false);
  CHECK(error_of(fixed, torch::batch_norm(operands.x, operands.weight, operands.bias, operands.mean,
                                          operands.variance, false, 0.2, 1e-4, false)) < 1e-12);
}

TEST_CASE("ddpscope::sync_batch_norm differentiates twice", "[norm]") {
  const Operands operands = operands_of(1);
  const at::Tensor y = call(operands, "");
  const at::Tensor first =
      torch::autograd::grad({y.pow(3).sum()}, {operands.x}, {}, true, /*create_graph=*/true)[0];
  first.square().sum().backward();
  CHECK(operands.x.grad().abs().max().item<double>() > 0);
}

TEST_CASE("ddpscope::sync_batch_norm says which group is not there", "[norm]") {
  std::string said;
  try {
    call(operands_of(0), "no such group");
  } catch (const std::exception& error) {
    said = error.what();
  }
  CHECK_THAT(said, Contains("no such group"));
  CHECK_THROWS_AS(register_communicator("", nullptr), c10::Error);
}

}  // namespace ddpscope::test::dispatcher_test
