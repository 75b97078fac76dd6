// What torch.compile makes of the operator: shapes without memory, and a forward and a backward of
// their own.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::traced_test {
namespace {
using torch::jit::Stack;

Stack call(const std::string& name, Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(&stack);
  return stack;
}

Stack arguments_of(const at::Tensor& x, const at::Tensor& weight, const std::string& group) {
  const at::TensorOptions options = weight.options().requires_grad(false);
  return {x,
          weight,
          torch::zeros({3}, options),
          torch::zeros({3}, options),
          torch::ones({3}, options),
          true,
          0.1,
          1e-5,
          group,
          "layer"};
}

}  // namespace

TEST_CASE("an input without memory gives an output of its form and gradients of theirs", "[norm]") {
  const bool channels_last = GENERATE(true, false), is_dense = GENERATE(true, false);
  const auto real = torch::randn({2, 3, 4, 6});
  auto x = real.to(at::kMeta);
  if (channels_last) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  if (!is_dense) x = x.narrow(3, 1, 4);
  x.requires_grad_();
  const auto weight = torch::ones({3}, at::kMeta).requires_grad_();
  const auto y = call("ddpscope::sync_batch_norm", arguments_of(x, weight, ""))[0].toTensor();
  CHECK(y.is_meta());
  CHECK(y.sizes() == x.sizes());
  CHECK(y.suggest_memory_format() == x.suggest_memory_format());
  y.sum().backward();
  CHECK(x.grad().sizes() == x.sizes());
  CHECK(weight.grad().sizes() == weight.sizes());
  CHECK_THROWS_WITH(sync_batch_norm(x, {}, {}, {}),
                    Catch::Matchers::Contains("input must be on the CPU"));
}

TEST_CASE("a recorded forward and backward have the bits of the function over ranks", "[norm]") {
  const auto dtype = GENERATE(at::kBFloat16, at::kFloat, at::kDouble);
  const bool with_weight = GENERATE(true, false);
  const auto are_same = on_ranks(2, [&](int rank, const CommunicatorPtr& group) {
    const std::string name = "traced " + std::to_string(rank);
    register_communicator(name, group);
    const auto x = seeded_randn(rank, {3 + rank, 3, 4}).to(dtype).requires_grad_();
    const auto weight = seeded_randn(9, {3}).requires_grad_();
    const auto dy = seeded_randn(rank + 5, {3 + rank, 3, 4}).to(dtype);
    Stack arguments = arguments_of(x, weight, name);
    if (!with_weight) arguments[1] = c10::IValue();
    const auto y = call("ddpscope::sync_batch_norm", arguments)[0].toTensor();
    y.backward(dy);

    const auto forward = call("ddpscope::_sync_batch_norm_forward", arguments);
    const auto backward = call("ddpscope::_sync_batch_norm_backward",
                               {dy, x, arguments[1], forward[1], true, name, "layer"});
    register_communicator(name, nullptr);
    return same_bits(forward[0].toTensor(), y) && same_bits(backward[0].toTensor(), x.grad()) &&
           (!with_weight || same_bits(backward[1].toTensor(), weight.grad()));
  });
  CHECK(are_same[0]);
  CHECK(are_same[1]);
}

}  // namespace ddpscope::test::traced_test
