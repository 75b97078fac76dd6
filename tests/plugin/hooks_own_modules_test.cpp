// Hooks on classes of the program's own, and what is said about how they are seen.
#include "tests/plugin/hook_log.h"
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using State = ModuleCoverage::State;
using torch::nn::Linear;
using torch::nn::Sequential;

struct PairImpl : torch::nn::Module {
  std::tuple<at::Tensor, std::vector<at::Tensor>> forward(const at::Tensor& input,
                                                          std::optional<at::Tensor> mask,
                                                          int times) {
    const at::Tensor output = inner(input) * times;
    return {output, {output + 1, mask.value_or(output)}};
  }
  Linear inner = register_module("inner", Linear(4, 4));
};

struct ScaleImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input) { return input * scale; }
  at::Tensor scale = register_parameter("scale", torch::ones({4}));
};
TORCH_MODULE(Scale);

struct ScopedImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input) {
    const Scope scope(*this);
    if (fails) throw std::domain_error("mine");
    return input * scale;
  }
  at::Tensor scale = register_parameter("scale", torch::ones({4}));
  bool fails = false;
};

struct NamedScopeImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input) {
    const Scope scope("block");
    return input + 1;
  }
};

// Its base is a builtin, which calls nothing but its own forward.
struct LoudLinearImpl : torch::nn::LinearImpl {
  using LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& input) { return LinearImpl::forward(input) * 2; }
};
}  // namespace

TEST_CASE("An observed module tells all tensors of its calls") {
  const auto net = std::make_shared<Observed<PairImpl>>();
  const at::Tensor input = torch::randn({2, 4});
  HookLog log;
  const HookHandle hook = register_module_hook(net, log.both());
  std::size_t outputs = 0;
  const HookHandle check = register_forward_hook(net, [&](const ForwardCall& call) {
    CHECK(call.type.ends_with("PairImpl"));
    CHECK(call.exactness == State::kExact);
    REQUIRE(call.inputs.size() == 2);
    CHECK(call.inputs[0].is_same(input));
    outputs = call.outputs.size();
  });
  net->forward(input, torch::zeros({2, 4}), 2);
  CHECK(outputs == 3);
  CHECK(log.take() == Lines{"<", "<inner", ">inner", ">"});
}

TEST_CASE("An observed module stands in containers as its own class does") {
  HookLog log;
  const auto scale = std::make_shared<Observed<ScaleImpl>>();
  Sequential net(Linear(4, 4), scale);
  torch::nn::AnyModule any(scale);
  const HookHandle hook = register_forward_hook(scale, log.after());
  net->forward(torch::randn({2, 4}));
  any.forward(torch::randn({2, 4}));
  torch::nn::ModuleHolder<Observed<ScaleImpl>> holder(scale);
  holder(torch::randn({2, 4}));
  CHECK(log.take() == Lines{">", ">", ">"});
}

TEST_CASE("The output of an observed module can be replaced") {
  const auto scale = std::make_shared<Observed<ScaleImpl>>();
  const HookHandle hook = register_forward_hook(
      scale, [](const ForwardCall& call) { return torch::zeros_like(call.outputs[0]); });
  CHECK(scale->forward(torch::ones({2, 4})).sum().item<double>() == 0);
  CHECK_THROWS_AS(register_forward_hook(std::make_shared<Observed<PairImpl>>(),
                                        [](const ForwardCall& call) { return call.outputs[0]; }),
                  std::invalid_argument);
}

TEST_CASE("An observed container and an observed builtin tell each call once") {
  HookLog log;
  const auto net =
      std::make_shared<Observed<torch::nn::SequentialImpl>>(Linear(4, 4), Linear(4, 2));
  const HookHandle hook = register_module_hook(net, log.both());
  net->forward(torch::randn({2, 4}));
  CHECK(log.take() == Lines{"<", "<0", ">0", "<1", ">1", ">"});
  const auto linear = std::make_shared<Observed<torch::nn::LinearImpl>>(4, 4);
  const HookHandle single = register_forward_hook(linear, log.after("linear"));
  linear->forward(torch::randn({2, 4}));
  CHECK(log.take() == Lines{"linear>"});
}

TEST_CASE("Gradients of an observed module are those of its tensors") {
  const auto net = std::make_shared<Observed<PairImpl>>();
  const at::Tensor input = torch::randn({2, 4}, torch::requires_grad());
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> inputs;
  const HookHandle hook = register_backward_hook(net, [&](const BackwardCall& call) {
    const bool of_inputs = call.of == BackwardCall::GradientsOf::kInputs;
    (of_inputs ? inputs : outputs).assign(call.gradients.begin(), call.gradients.end());
  });
  const auto [first, others] = net->forward(input, torch::zeros({2, 4}), 2);
  (others[0] * 3).sum().backward();
  REQUIRE(outputs.size() == 3);
  CHECK(outputs[0].eq(3).all().item<bool>());  // the second output is made of it
  CHECK(outputs[1].eq(3).all().item<bool>());
  CHECK(!outputs[2].defined());
  REQUIRE(inputs.size() == 2);
  CHECK(inputs[0].equal(input.grad()));
  CHECK(!inputs[1].defined());
}

TEST_CASE("A scope tells begin and end of a call") {
  HookLog log;
  ScopedImpl net;
  const HookHandle hook = register_module_hook(net, log.both());
  net.forward(torch::randn({2, 4}));
  CHECK(log.take() == Lines{"<", ">"});
  net.fails = true;
  CHECK_THROWS_AS(net.forward(torch::randn({2, 4})), std::domain_error);
  CHECK(log.take() == Lines{"<"});
  net.fails = false;
  const HookHandle throws =
      register_forward_hook(net, [](const ForwardCall&) { throw std::range_error("hook"); });
  CHECK_THROWS_AS(net.forward(torch::randn({2, 4})), std::range_error);
}

TEST_CASE("A scope finds its module by the path below a hooked root") {
  HookLog log;
  Sequential net;
  const auto block = std::make_shared<NamedScopeImpl>();
  net->register_module("block", block);
  const HookHandle hook = register_module_hook(net, log.both());
  block->forward(torch::randn({2, 4}));
  CHECK(log.take() == Lines{"<block", ">block"});
}

TEST_CASE("Calls of other classes are inferred from who reads their parameters") {
  Scale scale;
  int calls = 0;
  const at::Tensor input = torch::randn({2, 4});
  HookHandle hook = register_forward_hook(scale, [&](const ForwardCall& call) {
    ++calls;
    CHECK(call.exactness == State::kInferred);
    CHECK(call.op == "aten::mul");
    REQUIRE(call.inputs.size() == 1);
    CHECK(call.inputs[0].is_same(input));
    CHECK(call.outputs.size() == 1);
  });
  torch::optim::SGD optimizer(scale->parameters(), torch::optim::SGDOptions(0.1).weight_decay(0.1));
  scale(input).sum().backward();
  CHECK(calls == 1);
  optimizer.step();
  scale->scale.square().sum().backward();  // a penalty is no forward
  CHECK(calls == 1);
  hook.remove();
  scale(input);
  CHECK(calls == 1);
}

TEST_CASE("Gradients of an inferred call are those of its operator") {
  Scale scale;
  std::vector<at::Tensor> gradients;
  const HookHandle hook = register_backward_hook(
      scale, [&](const BackwardCall& call) { gradients.push_back(call.gradients[0].clone()); });
  const at::Tensor input = torch::full({2, 4}, 2.0, torch::requires_grad());
  (scale(input) * 3).sum().backward();
  REQUIRE(gradients.size() == 2);
  CHECK(gradients[0].eq(3).all().item<bool>());
  CHECK(gradients[1].equal(input.grad()));
}

TEST_CASE("A class that derives from a builtin tells what its base does") {
  LoudLinearImpl layer(4, 4);
  State state = State::kBlind;
  const HookHandle hook =
      register_forward_hook(layer, [&](const ForwardCall& call) { state = call.exactness; });
  layer.forward(torch::randn({2, 4}));
  CHECK(state == State::kInferred);
}

TEST_CASE("Coverage says of every module how it is seen and why") {
  using namespace torch::nn;
  struct AllImpl : Module {
    AllImpl() {
      register_module("linear", Linear(4, 4));
      register_module("norm", BatchNorm1d(4));
      register_module("plain_norm", InstanceNorm1d(4));
      register_module("scale", Scale());
      register_module("seen", std::make_shared<Observed<ScaleImpl>>());
      register_module("loud", std::make_shared<LoudLinearImpl>(4, 4));
    }
  } all;
  std::vector<std::string> lines;
  for (const ModuleCoverage& one : hook_coverage(all)) {
    const char* const words[] = {"exact", "inferred", "blind"};
    lines.push_back(one.path + " " + words[static_cast<int>(one.state)]);
    CHECK(!one.type.empty());
    CHECK(one.why.size() > 10);
  }
  CHECK(lines == std::vector<std::string>{" blind", "linear exact", "norm exact",
                                          "plain_norm blind", "scale inferred", "seen exact",
                                          "loud inferred"});
}
}  // namespace ddpscope::test
