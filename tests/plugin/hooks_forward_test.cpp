#include <atomic>
#include <thread>

#include "tests/plugin/hook_log.h"
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::ReLU;
using torch::nn::Sequential;

}  // namespace

TEST_CASE("A forward hook sees module, type, inputs and outputs") {
  Linear layer(8, 4);
  const at::Tensor input = torch::randn({2, 8});
  at::Tensor output;
  int calls = 0;
  const HookHandle before = register_forward_pre_hook(layer, [&](const ForwardCall& call) {
    ++calls;
    CHECK(call.outputs.empty());
  });
  const HookHandle after = register_forward_hook(layer, [&](const ForwardCall& call) {
    ++calls;
    CHECK(&call.module == layer.get());
    CHECK(call.type == "torch::nn::LinearImpl");
    CHECK(call.path.empty());
    CHECK(call.exactness == ModuleCoverage::State::kExact);
    REQUIRE(call.inputs.size() == 1);
    CHECK(call.inputs[0].is_same(input));
    REQUIRE(call.outputs.size() == 1);
    output = call.outputs[0];
  });
  CHECK(layer(input).is_same(output));
  CHECK(calls == 2);
}

TEST_CASE("A hook fires once per call however the layer is called") {
  HookLog log;
  Linear layer(8, 8);
  const HookHandle hook = register_forward_hook(layer, log.after());
  const at::Tensor input = torch::randn({2, 8});
  layer->forward(input);
  CHECK(log.take() == Lines{">"});
  layer(input);
  CHECK(log.take() == Lines{">"});
  Sequential sequence(layer, ReLU());
  sequence->forward(input);
  CHECK(log.take() == Lines{">"});
  torch::nn::AnyModule any(layer);
  any.forward(input);
  CHECK(log.take() == Lines{">"});
  struct OuterImpl : torch::nn::Module {
    explicit OuterImpl(Sequential inner) : body(register_module("body", std::move(inner))) {}
    at::Tensor forward(const at::Tensor& x) { return body->forward(x); }
    Sequential body;
  };
  Sequential nested(std::make_shared<OuterImpl>(sequence));
  nested->forward(input);
  CHECK(log.take() == Lines{">"});
}

TEST_CASE("Every kind of target can be hooked") {
  HookLog log;
  const auto shared = std::make_shared<torch::nn::LinearImpl>(4, 4);
  const auto unique = std::make_unique<torch::nn::LinearImpl>(4, 4);
  torch::nn::LinearImpl on_stack(4, 4);
  const HookHandle first = register_forward_hook(shared, log.after("shared"));
  const HookHandle second = register_forward_hook(unique.get(), log.after("unique"));
  const HookHandle third = register_forward_hook(on_stack, log.after("stack"));
  const at::Tensor input = torch::randn({2, 4});
  shared->forward(input);
  unique->forward(input);
  on_stack.forward(input);
  CHECK(log.take() == Lines{"shared>", "unique>", "stack>"});
}

TEST_CASE("A module hook tells all modules below its root by their paths") {
  HookLog log;
  Net net;
  HookHandle hook = register_module_hook(net, log.both());
  net(torch::randn({2, 8}));
  CHECK(log.take() == Lines{"<first", ">first", "<second", ">second"});
  net->register_module("late", Linear(4, 4))->forward(torch::randn({2, 4}));
  CHECK(log.take() == Lines{"<late", ">late"});
  Linear foreign(4, 4);
  foreign(torch::randn({2, 4}));
  net->unregister_module("first");
  net->first(torch::randn({2, 8}));
  CHECK(log.size() == 0);
}

TEST_CASE("A hook that returns a tensor replaces the output") {
  Linear layer(4, 4);
  const at::Tensor input = torch::randn({2, 4});
  const HookHandle twice =
      register_forward_hook(layer, [](const ForwardCall& call) { return call.outputs[0] * 0 + 2; });
  const HookHandle next =
      register_forward_hook(layer, [](const ForwardCall& call) { return call.outputs[0] + 1; });
  const HookHandle none =
      register_forward_hook(layer, [](const ForwardCall&) { return at::Tensor(); });
  at::Tensor seen;
  const HookHandle last =
      register_forward_hook(layer, [&](const ForwardCall& call) { seen = call.outputs[0]; });
  CHECK(layer(input).eq(3).all().item<bool>());
  CHECK(seen.eq(3).all().item<bool>());
}

TEST_CASE("Threads call, register and remove at the same time") {
  Net net;
  std::atomic<int> calls{0};
  const auto count = [&](const ForwardCall&) { ++calls; };
  const HookHandle kept = register_module_hook(net, {.after = count});
  constexpr int kThreads = 4;
  constexpr int kCalls = 50;
  std::atomic<int> others{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kCalls; ++k) {
        HookHandle hook = register_forward_hook(net->first, [&](const auto&) { ++others; });
        net->forward(torch::randn({2, 8}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(calls == 2 * kThreads * kCalls);
  CHECK(others >= kThreads * kCalls);
  CHECK(others <= kThreads * kThreads * kCalls);
}

TEST_CASE("Recurrent layers and attention tell all their tensors") {
  std::vector<std::size_t> counts;
  const auto count = [&](const ForwardCall& call) {
    counts.push_back(call.inputs.size());
    counts.push_back(call.outputs.size());
  };
  torch::nn::LSTM lstm(4, 4);
  torch::nn::GRU gru(4, 4);
  torch::nn::MultiheadAttention attention(4, 2);
  const HookHandle first = register_forward_hook(lstm, count);
  const HookHandle second = register_forward_hook(gru, count);
  const HookHandle third = register_forward_hook(attention, count);
  const at::Tensor input = torch::randn({3, 2, 4});
  lstm(input);
  lstm(input, std::make_tuple(torch::zeros({1, 2, 4}), torch::zeros({1, 2, 4})));
  gru(input);
  attention(input, input, input);
  CHECK(counts == std::vector<std::size_t>{1, 3, 3, 3, 2, 2, 5, 2});
}

TEST_CASE("Batch and instance norm are told by their operator") {
  HookLog log;
  using namespace torch::nn;
  Sequential net(BatchNorm1d(4), BatchNorm1d(BatchNorm1dOptions(4).affine(false)),
                 BatchNorm1d(BatchNorm1dOptions(4).track_running_stats(false)));
  const HookHandle hook = register_module_hook(net, log.both());
  net->forward(torch::randn({5, 4}));
  CHECK(log.take() == Lines{"<0", ">0", "<1", ">1", "<2", ">2"});
  InstanceNorm2d instance(InstanceNorm2dOptions(3).affine(true));
  const HookHandle single = register_forward_hook(instance, log.after());
  instance(torch::randn({2, 3, 4, 4}));
  CHECK(log.take() == Lines{">"});
  net->eval();
  net->forward(torch::randn({5, 4}));
  CHECK(log.size() == 6);
}

TEST_CASE("Hooks work where diagnostics are off") {
  setenv("DDPSCOPE", "0", 1);
  HookLog log;
  Net net;
  attach_diagnostics(net, quiet());
  const HookHandle hook = register_module_hook(net, log.both());
  net(torch::randn({2, 8}));
  CHECK(log.take() == Lines{"<first", ">first", "<second", ">second"});
}

TEST_CASE("A hook on one module says its path in the attached model") {
  HookLog log;
  Net net;
  const HookHandle hook = register_forward_hook(net->second, log.after());
  net(torch::randn({2, 8}));
  attach_diagnostics(net, quiet());
  net(torch::randn({2, 8}));
  CHECK(log.take() == Lines{">", ">second"});
}
}  // namespace ddpscope::test
