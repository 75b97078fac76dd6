// Correct programs, by the shape of their models: ddpscope has nothing to say about them.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::nn::ModuleDict;
using torch::nn::ModuleList;
using torch::nn::ReLU;
using torch::nn::Sequential;
using torch::optim::SGD;

// A layer without any builtin forward.
struct OwnLayer : Module {
  OwnLayer(int in, int out)
      : weight(register_parameter("weight", torch::randn({in, out}) * 0.1)),
        bias(register_parameter("bias", torch::zeros({out}))) {}
  at::Tensor forward(const at::Tensor& x) const { return x.matmul(weight) + bias; }
  at::Tensor weight;
  at::Tensor bias;
};

struct OwnNet : Module {
  OwnNet() {
    register_module("one", one);
    register_module("two", two);
  }
  at::Tensor loss() const { return two->forward(one->forward(input()).tanh()).square().mean(); }
  std::shared_ptr<OwnLayer> one = std::make_shared<OwnLayer>(8, 6);
  std::shared_ptr<OwnLayer> two = std::make_shared<OwnLayer>(6, 2);
};

// What makes a sequence fit into another one: a forward that is no template.
struct BlockImpl : torch::nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  at::Tensor forward(const at::Tensor& x) { return SequentialImpl::forward(x); }
};
TORCH_MODULE(Block);

// Both bases can give a shared pointer: shared_from_this() of neither works as usual.
struct Doubled : NetImpl, std::enable_shared_from_this<Doubled> {};
}  // namespace

TEST_CASE("A model on the stack is silent") {
  NetImpl net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_silent();
}

TEST_CASE("Weights in bfloat16 are silent whose float32 copies are stepped and written back") {
  const bool by_data = GENERATE(true, false);
  Net net;
  attach_diagnostics(net, quiet());
  net->to(torch::kBFloat16);
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : net->parameters()) {
    copies.push_back(parameter.detach().to(torch::kFloat).requires_grad_());
  }
  torch::optim::AdamW optimizer(copies, 0.01);
  for (int i = 0; i < 40; ++i) {
    net->zero_grad();
    net(input().to(torch::kBFloat16)).to(torch::kFloat).square().mean().backward();
    const auto parameters = net->parameters();
    for (std::size_t k = 0; k < copies.size(); ++k) {
      copies[k].mutable_grad() = parameters[k].grad().to(torch::kFloat);
    }
    if (i == 20) continue;  // a step that is skipped
    optimizer.step();
    const torch::NoGradGuard guard;
    for (std::size_t k = 0; k < copies.size(); ++k) {
      if (by_data) {
        parameters[k].set_data(copies[k].to(torch::kBFloat16));
      } else {
        parameters[k].copy_(copies[k]);
      }
    }
  }
  check_silent();
}

TEST_CASE("A module holder is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("A shared pointer is silent") {
  const auto net = std::make_shared<NetImpl>();
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("A unique pointer is silent") {
  const auto net = std::make_unique<NetImpl>();
  attach_diagnostics(*net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("A doubled enable_shared_from_this is silent") {
  Doubled on_stack;
  const auto shared = std::make_shared<Doubled>();
  attach_diagnostics(static_cast<Module&>(on_stack), quiet());
  attach_diagnostics(static_cast<Module&>(*shared), quiet());
  SGD first(on_stack.parameters(), 0.01);
  SGD second(shared->parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    train(
        first, [&] { return on_stack.loss(); }, 1);
    train(
        second, [&] { return shared->loss(); }, 1);
  }
  check_silent(2);
}

TEST_CASE("Classes without a builtin forward are silent") {
  OwnNet net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_silent();
}

TEST_CASE("Lists and dictionaries and nested sequences are silent") {
  struct Containers : Module {
    Containers() {
      for (int i = 0; i < 3; ++i) layers->push_back(Linear(8, 8));
      torch::OrderedDict<std::string, std::shared_ptr<Module>> heads_by_name;
      heads_by_name.insert("left", Linear(8, 3).ptr());
      heads_by_name.insert("right", Linear(8, 3).ptr());
      heads->update(heads_by_name);
      register_module("layers", layers);
      register_module("heads", heads);
      register_module("body", body);
    }
    at::Tensor loss() {
      at::Tensor x = input();
      for (const auto& layer : *layers) x = layer->as<Linear>()->forward(x).relu();
      x = body->forward(x);
      at::Tensor sum = torch::zeros({});
      for (const auto& item : heads->items()) {
        sum = sum + item.second->as<Linear>()->forward(x).square().mean();
      }
      return sum;
    }
    ModuleList layers;
    ModuleDict heads;
    Sequential body{Block(Linear(8, 8), ReLU()), Block(Linear(8, 8), ReLU())};
  } net;
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net.parameters());
  train(optimizer, [&] { return net.loss(); });
  check_silent();
}

TEST_CASE("Named tensors under two roots are silent") {
  std::vector<at::Tensor> parameters;
  const auto parameter = [&](int in, int out) {
    return parameters.emplace_back(torch::randn({in, out}).mul_(0.1).requires_grad_());
  };
  const NamedTensors encoder = {{"encoder.weight", parameter(8, 6)}};
  const NamedTensors decoder = {{"decoder.weight", parameter(6, 2)},
                                {"decoder.scale", parameter(1, 2)}};
  attach_diagnostics(encoder, quiet());
  attach_diagnostics(decoder, quiet());
  SGD optimizer(parameters, 0.01);
  train(optimizer, [&] {
    const at::Tensor hidden = input().matmul(encoder[0].second).relu();
    return (hidden.matmul(decoder[0].second) * decoder[1].second).square().mean();
  });
  check_silent(2);
}

TEST_CASE("Two attached models are silent") {
  Net one;
  Net two;
  attach_diagnostics(one, quiet()).name("one");
  attach_diagnostics(two, quiet()).name("two");
  SGD first(one->parameters(), 0.01);
  SGD second(two->parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    first.zero_grad();
    second.zero_grad();
    (one->loss() + two->loss()).backward();
    first.step();
    second.step();
  }
  check_silent(2);
}

TEST_CASE("One layer that is called twice is silent") {
  struct Tied : Module {
    at::Tensor loss() { return shared(shared(input()).relu()).square().mean(); }
    Linear shared = register_module("shared", Linear(8, 8));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_silent();
}

TEST_CASE("The inner sequence of an outer class is silent") {
  struct Outer {
    Sequential layers{Linear(8, 8), ReLU(), Linear(8, 2)};
    at::Tensor loss() { return layers->forward(input()).square().mean(); }
  } outer;
  attach_diagnostics(outer.layers, quiet());
  SGD optimizer(outer.layers->parameters(), 0.01);
  train(optimizer, [&] { return outer.loss(); });
  check_silent();
}

TEST_CASE("Batch norm and dropout and an embedding and a recurrent layer are silent") {
  struct Mixed : Module {
    at::Tensor loss() {
      const at::Tensor words = embed(torch::randint(20, {6, 6}));
      const auto [sequence, state] = memory(words);
      const at::Tensor x = norm(sequence.select(1, 5));
      return torch::cross_entropy_loss(head(drop(x)), torch::randint(3, {6}));
    }
    torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(20, 8));
    torch::nn::LSTM memory =
        register_module("memory", torch::nn::LSTM(torch::nn::LSTMOptions(8, 8).batch_first(true)));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
    torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.2));
    Linear head = register_module("head", Linear(8, 3));
  } net;
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net.parameters());
  train(optimizer, [&] { return net.loss(); });
  check_silent();
}

}  // namespace ddpscope::test
