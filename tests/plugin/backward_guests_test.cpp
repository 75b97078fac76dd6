// What we add to backward leaves it as it was: depth, threads, exceptions, the life of graphs.
#include <thread>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::nn::Linear;
using torch::nn::Module;

struct Small : Module {
  at::Tensor loss() { return layer(torch::randn({5, 8})).square().mean(); }
  Linear layer = register_module("layer", Linear(8, 2));
};

/// Starts a backward inside its own backward, `depth` times.
struct Nested : torch::autograd::Function<Nested> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, std::int64_t depth) {
    context->saved_data["depth"] = depth;
    return x.clone();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const std::int64_t depth = context->saved_data["depth"].toInt();
    if (depth > 0) {
      const at::AutoGradMode with_grad(true);
      const at::Tensor x = torch::ones({2}, torch::requires_grad());
      Nested::apply(x, depth - 1).sum().backward();
    }
    return {gradients[0], at::Tensor()};
  }
};

struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Every error of autograd that LibTorch raises itself.
void go_wrong_at(const std::string& level) {
  Small net;
  Options options = quiet();
  options.level = level;
  attach_diagnostics(net, options);
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  const at::Tensor gate = torch::sigmoid(net.layer(torch::randn({5, 8})));
  gate.add_(1);
  CHECK_THROWS_AS(gate.sum().backward(), c10::Error);
  const at::Tensor loss = net.loss();
  loss.backward();
  CHECK_THROWS_AS(loss.backward(), c10::Error);
  CHECK_THROWS_AS(net.layer->weight.mul_(2), c10::Error);
  CHECK_THROWS_AS(net.layer(torch::randn({5, 8})).chunk(2, 1)[0].mul_(2), c10::Error);
  CHECK_THROWS_AS(torch::zeros({}).backward(), c10::Error);
  const auto all = findings();
  for (const char* id : {"autograd-inplace-saved", "autograd-double-backward",
                         "autograd-leaf-inplace", "autograd-multiview-inplace"}) {
    CAPTURE(id);
    CHECK(find(all, id) != nullptr);
  }
}

struct Refuses : torch::autograd::Function<Refuses> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static variable_list backward(AutogradContext*, variable_list) { throw Refusal("not today"); }
};
}  // namespace

TEST_CASE("A backward 101 levels deep ends") {
  Small net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return Nested::apply(net.loss(), 101); });
  check_silent();
}

TEST_CASE("An exception inside a custom function keeps its type and text") {
  Small net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  std::string told;
  try {
    Refuses::apply(net.loss()).backward();
  } catch (const Refusal& refusal) {
    told = refusal.what();
  }
  CHECK(told == "not today");
  train(optimizer, [&] { return net.loss(); });
  check_silent();
}

TEST_CASE("At level watch every error of autograd is LibTorch's own") { go_wrong_at("watch"); }
TEST_CASE("At level values every error of autograd is LibTorch's own") { go_wrong_at("values"); }
TEST_CASE("At level stacks every error of autograd is LibTorch's own") { go_wrong_at("stacks"); }

TEST_CASE("Four threads that go wrong at once each get LibTorch's own exception") {
  Small net;
  attach_diagnostics(net, quiet());
  net.loss().backward();  // what is preloaded starts there: before, no write is seen
  std::atomic<int> caught = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&caught] {
      for (int k = 0; k < 20; ++k) {
        const at::Tensor x = torch::randn({5, 8}, torch::requires_grad());
        const at::Tensor y = torch::sigmoid(x);
        y.add_(1);
        try {
          y.sum().backward();
        } catch (const c10::Error& error) {
          const std::string text = error.what_without_backtrace();
          if (text.find("modified by an inplace operation") != std::string::npos) ++caught;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(caught == 80);
  const auto all = findings();
  const Finding* found = find(all, "autograd-inplace-saved");
  REQUIRE(found != nullptr);
  CHECK(text_fact(*found, "writer_op") == "aten::add_");
}

TEST_CASE("No graph outlives its step over 10000 steps") {
  Small net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  std::vector<std::weak_ptr<torch::autograd::Node>> nodes;
  train(
      optimizer,
      [&] {
        const at::Tensor line = net.layer(torch::randn({5, 8}));
        const at::Tensor square = line.square();
        const at::Tensor loss = square.mean();
        for (const at::Tensor& made : {line, square, loss}) nodes.push_back(made.grad_fn());
        return loss;
      },
      10'000);
  CHECK(nodes.size() == 30'000);
  CHECK(std::ranges::all_of(nodes, [](const auto& node) { return node.expired(); }));
  check_silent();
}

}  // namespace ddpscope::test
