// Hooks on classes whose calls are told by the operators that read their parameters.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <dlfcn.h>
#include <torch/library.h>

#include "tests/plugin/hook_log.h"
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {

struct WeightsImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input) { return input * scale; }
  at::Tensor scale = register_parameter("scale", torch::ones({4}));
  at::Tensor shift = register_parameter("shift", torch::zeros({4}));
  at::Tensor table = register_parameter("table", torch::ones({4, 4}));
};
TORCH_MODULE(Weights);

HookHandle log_operators(Weights& weights, HookLog& log) {
  return register_forward_hook(weights, [&log](const ForwardCall& call) {
    CHECK(call.exactness == ModuleCoverage::State::kInferred);
    CHECK(!call.inputs.empty());
    log.add(std::string(call.op));
  });
}

// It runs no operator on its second argument.
at::Tensor own_operator(const at::Tensor& input, const at::Tensor&) { return input.clone(); }

class OwnLibrary {
 public:
  OwnLibrary() : library_(torch::Library::DEF, "mine", std::nullopt, __FILE__, __LINE__) {
    library_.def("scaled(Tensor input, Tensor scale) -> Tensor", &own_operator);
  }
  static at::Tensor call(const at::Tensor& input, const at::Tensor& scale) {
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow("mine::scaled", "")
        .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>()
        .call(input, scale);
  }

 private:
  torch::Library library_;
};
}  // namespace

TEST_CASE("An operator is recorded only where the gate does not tell it") {
  const bool beside_another_tool = dlsym(RTLD_DEFAULT, "other_tool_calls") != nullptr;
  HookLog log;
  Weights weights;
  const at::Tensor input = torch::randn({2, 4});
  HookHandle hook = log_operators(weights, log);
  CHECK(at::hasGlobalCallbacks() == beside_another_tool);
  weights(input);
  torch::linear(input, weights->table);
  CHECK(log.take() == Lines{"aten::mul", "aten::linear"});
  hook.remove();
  CHECK(!at::hasGlobalCallbacks());
  weights(input);
  CHECK(log.size() == 0);
}

TEST_CASE("Every operator that reads a parameter and another tensor is told once") {
  HookLog log;
  Weights weights;
  const HookHandle hook = log_operators(weights, log);
  const at::Tensor input = torch::randn({2, 4});
  const at::Tensor ids = torch::tensor({1, 2});
  const auto& [scale, shift, table] = std::tie(weights->scale, weights->shift, weights->table);
  torch::linear(input, table, shift);
  torch::matmul(input, table);
  torch::cat({input, table});
  torch::einsum("ij,jk->ik", {input, table});
  table.index({ids});
  torch::embedding(table, ids);
  torch::where(input > 0, input, shift);
  torch::layer_norm(input, {4}, scale, shift);
  torch::native_layer_norm(input, {4}, scale, shift, 1e-5);
  torch::batch_norm(input, scale, shift, {}, {}, true, 0.1, 1e-5, false);
  CHECK(log.take() == Lines{"aten::linear", "aten::matmul", "aten::cat", "aten::einsum",
                            "aten::index", "aten::embedding", "aten::where", "aten::layer_norm",
                            "aten::native_layer_norm", "aten::batch_norm"});
}

TEST_CASE("Operators that write and looks at parameters are no calls") {
  HookLog log;
  Weights weights;
  const HookHandle hook = log_operators(weights, log);
  const torch::NoGradGuard guard;
  at::Tensor average = torch::zeros({4});
  average.lerp_(weights->scale, 0.1);
  average.mul_(0.9).add_(weights->scale, 0.1);
  torch::mul_out(average, torch::ones({4}), weights->scale);
  weights->scale.copy_(average);
  torch::equal(weights->scale, average);
  torch::cat({weights->scale, weights->shift});
  weights->to(torch::kDouble);
  CHECK(log.size() == 0);
}

TEST_CASE("What a callback throws in an inferred call reaches the caller") {
  HookLog log;
  Weights weights;
  const at::Tensor input = torch::randn({2, 4});
  {
    const HookHandle hook =
        register_forward_pre_hook(weights, [](const auto&) { throw std::domain_error("before"); });
    CHECK_THROWS_AS(weights(input), std::domain_error);
  }
  {
    const HookHandle hook =
        register_forward_hook(weights, [](const ForwardCall&) { throw std::range_error("after"); });
    CHECK_THROWS_AS(weights(input), std::range_error);
  }
  const HookHandle hook = log_operators(weights, log);
  weights(input);
  CHECK(log.take() == Lines{"aten::mul"});
}

TEST_CASE("An operator that throws has a begin and no end in an inferred call") {
  HookLog log;
  Weights weights;
  const HookHandle before = register_forward_pre_hook(weights, log.before());
  const HookHandle after = register_forward_hook(weights, log.after());
  CHECK_THROWS_AS(weights(torch::randn({2, 3})), c10::Error);
  CHECK(log.take() == Lines{"<"});
}

TEST_CASE("Operators of the program are told whenever they were registered") {
  HookLog log;
  Weights weights;
  const at::Tensor input = torch::randn({2, 4});
  {
    const OwnLibrary library;
    const HookHandle hook = log_operators(weights, log);
    OwnLibrary::call(input, weights->scale);
    weights(input);
    CHECK(log.take() == Lines{"mine::scaled", "aten::mul"});
  }
  const HookHandle hook = log_operators(weights, log);
  CHECK(!at::hasGlobalCallbacks());
  const OwnLibrary library;
  OwnLibrary::call(input, weights->scale);
  CHECK(log.take() == Lines{"mine::scaled"});
}
}  // namespace ddpscope::test
