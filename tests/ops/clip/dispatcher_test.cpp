// The operators as other languages find them: by name, through the dispatcher.
#include <ATen/core/dispatch/Dispatcher.h>

#include "tests/ops/clip/oracle.h"

namespace ddpscope::test::dispatcher_test {
namespace {

std::vector<c10::IValue> call(const std::string& name, std::vector<c10::IValue> arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
  while (arguments.size() < op.schema().arguments().size()) {
    arguments.push_back(*op.schema().arguments()[arguments.size()].default_value());
  }
  op.callBoxed(&arguments);
  return arguments;
}

}  // namespace

TEST_CASE("ddpscope::clip_grad_norm_ clips a list and gives its results back by position") {
  const Tensors gradients = {torch::full({4}, 3.F), torch::full({2}, 4.F)};
  const auto results = call("ddpscope::clip_grad_norm_", {gradients, 1.0});
  REQUIRE(results.size() == 8);
  const double norm = std::sqrt(68);
  CHECK(results[0].toTensor().item<double>() == Approx(norm));
  CHECK(results[1].toTensor().item<double>() == Approx(1 / norm).epsilon(1e-6));
  CHECK(results[2].toTensor()[0].item<double>() == 6);
  CHECK(results[3].toTensor()[1].item<double>() == 4);
  CHECK(results[6].toTensor().item<std::int64_t>() == -1);
  CHECK(results[7].toTensor().item<float>() == 0);
  CHECK(exact_norm(gradients, 2) == Approx(1).epsilon(1e-6));
}

TEST_CASE("ddpscope::clip_grad_norm_ takes an order, a mode and an inverse scale") {
  const auto bad = torch::tensor({kNan, 2.}, at::kFloat);
  auto results =
      call("ddpscope::clip_grad_norm_", {Tensors{bad}, 1.0, 1.0, "skip", torch::full({}, 0.5F)});
  CHECK(results[4].toTensor()[0].item<std::int64_t>() == 1);
  CHECK(bad[1].item<float>() == 1);
  CHECK(says(thrown_by([&] {
               call("ddpscope::clip_grad_norm_", {Tensors{bad}, 1.0, 2.0, "throw"});
             }),
             "tensors[0], with 1 NaN"));
  CHECK(says(thrown_by([&] {
               call("ddpscope::clip_grad_norm_", {Tensors{bad}, 1.0, 2.0, "keep"});
             }),
             "on_non_finite must be"));
}

TEST_CASE("ddpscope::clip_grad_norm_ takes an empty list and gradients that have a history") {
  CHECK(call("ddpscope::clip_grad_norm_", {Tensors{}, 1.0})[0].toTensor().item<double>() == 0);
  const auto weight = torch::full({3}, 2.F, torch::requires_grad());
  const auto gradient =
      torch::autograd::grad({weight.pow(3).sum()}, {weight}, {}, true, /*create_graph=*/true)[0];
  REQUIRE(gradient.requires_grad());
  const auto version = gradient._version();
  call("ddpscope::clip_grad_norm_", {Tensors{gradient}, 1.0});
  CHECK(gradient.norm().item<double>() == Approx(1).epsilon(1e-5));
  CHECK(gradient._version() == version);
}

TEST_CASE("Of gradients without memory the clips give results of their forms") {
  const Tensors gradients = {torch::ones({4}, at::kMeta), torch::ones({2}, at::kMeta)};
  const auto clipped = call("ddpscope::clip_grad_norm_", {gradients, 1.0});
  REQUIRE(clipped.size() == 8);
  const Tensors real = {torch::ones({4}), torch::ones({2})};
  const auto expected = call("ddpscope::clip_grad_norm_", {real, 1.0});
  for (std::size_t i = 0; i < clipped.size(); ++i) {
    CHECK(clipped[i].toTensor().is_meta());
    CHECK(clipped[i].toTensor().sizes() == expected[i].toTensor().sizes());
    CHECK(clipped[i].toTensor().scalar_type() == expected[i].toTensor().scalar_type());
  }
  const auto clamped = call("ddpscope::clip_grad_value_", {gradients, 1.0});
  REQUIRE(clamped.size() == 2);
  CHECK(clamped[1].toTensor().sizes() == at::IntArrayRef{2});
}

TEST_CASE("Of an empty list that is traced the clips give results without rows") {
  const c10::impl::ForceDispatchKeyGuard traced(c10::DispatchKeySet(c10::DispatchKey::Meta), {});
  const auto clipped = call("ddpscope::clip_grad_norm_", {Tensors{}, 1.0});
  REQUIRE(clipped.size() == 8);
  CHECK(clipped[2].toTensor().sizes() == at::IntArrayRef{0});
  CHECK(call("ddpscope::clip_grad_value_", {Tensors{}, 1.0}).size() == 2);
}

TEST_CASE("ddpscope::clip_grad_value_ clamps and counts") {
  const auto gradient = torch::tensor({kInfinity, -5., 0.5}, at::kFloat);
  const auto results = call("ddpscope::clip_grad_value_", {Tensors{gradient}, 2.0});
  CHECK(same_bits(gradient, torch::tensor({2.F, -2.F, 0.5F})));
  CHECK(results[1].toTensor()[0].item<std::int64_t>() == 1);
}

}  // namespace ddpscope::test::dispatcher_test
