#include "tests/plugin/gradient_recorder.h"

namespace ddpscope::test {
namespace {
using Of = BackwardCall::GradientsOf;
using torch::nn::Linear;
using torch::nn::ReLU;
using torch::nn::Sequential;

// Runs the module again in backward, as checkpointing does.
struct Recompute : torch::autograd::Function<Recompute> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            Sequential* net) {
    context->save_for_backward({input});
    context->saved_data["net"] = reinterpret_cast<std::int64_t>(net);
    return (*net)->forward(input);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* const net = reinterpret_cast<Sequential*>(context->saved_data["net"].toInt());
    const torch::AutoGradMode with_grad(true);
    at::Tensor input = context->get_saved_variables()[0].detach().requires_grad_();
    (*net)->forward(input).backward(gradients[0]);
    return {input.grad(), at::Tensor()};
  }
};

const void* handed_out = nullptr;

struct HandsOut : torch::autograd::Function<HandsOut> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->saved_data["size"] = x.sizes();
    return x.sum();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list) {
    at::Tensor gradient = torch::ones(context->saved_data["size"].toIntVector());
    handed_out = gradient.data_ptr();
    return {std::move(gradient)};
  }
};

struct HandsOutImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return HandsOut::apply(x); }
};
}  // namespace

TEST_CASE("Gradients of outputs come before those of inputs") {
  Sequential net(Linear(4, 4), Linear(4, 4));
  std::vector<std::string> order;
  const HookHandle hook =
      register_module_hook(net, {.backward = [&](const BackwardCall& call) {
                             const bool in = call.of == Of::kInputs;
                             order.push_back(std::string(call.path) + (in ? " in" : " out"));
                           }});
  net->forward(torch::randn({2, 4}, torch::requires_grad())).sum().backward();
  CHECK(order == std::vector<std::string>{"1 out", "1 in", "0 out", "0 in"});
}

TEST_CASE("Each backward through one forward tells its own gradients") {
  Linear layer(4, 2);
  Tensors told;
  const HookHandle hook = register_backward_hook(
      layer, [&](const BackwardCall& call) { told.push_back(call.gradients[0].clone()); });
  const at::Tensor output = layer(torch::randn({3, 4}));
  output.sum().backward({}, /*retain_graph=*/true);
  (output * 2).sum().backward({}, /*retain_graph=*/true);
  (output * 3).sum().backward();
  REQUIRE(told.size() == 3);
  for (int i = 0; i < 3; ++i) CHECK(told[i].eq(i + 1).all().item<bool>());
  CHECK(layer->bias.grad().eq(3 * 6).all().item<bool>());
}

TEST_CASE("The backward of another call tells nothing of this one") {
  Linear body(4, 4);
  Linear head(4, 2);
  int calls = 0;
  const HookHandle hook = register_backward_hook(head, [&](const BackwardCall&) { ++calls; });
  const at::Tensor shared = body(torch::randn({3, 4}));
  const at::Tensor first = head(shared).sum();
  const at::Tensor second = head(shared).sum();
  first.backward({}, /*retain_graph=*/true);
  CHECK(calls == 2);  // outputs and inputs of the first call
  second.backward();
  CHECK(calls == 4);
}

TEST_CASE("Double backward goes through the hooks") {
  Sequential net(Linear(4, 4), torch::nn::Tanh(), Linear(4, 1));
  const at::Tensor input = torch::randn({3, 4}, torch::requires_grad());
  const auto penalty = [&] {
    const at::Tensor output = net->forward(input).sum();
    const at::Tensor gradient = torch::autograd::grad({output}, {input}, {}, {}, true)[0];
    return gradient.square().sum();
  };
  penalty().backward();
  const at::Tensor expected = net->parameters()[0].grad().clone();
  net->zero_grad();
  int calls = 0;
  const HookHandle hook =
      register_module_hook(net, {.backward = [&](const BackwardCall&) { ++calls; }});
  const at::Tensor loss = penalty();
  const int first = calls;
  CHECK(first >= 5);
  loss.backward();
  CHECK(calls > first);
  CHECK(net->parameters()[0].grad().equal(expected));
}

TEST_CASE("A forward that is recomputed in backward tells its gradients once") {
  Sequential net(Linear(4, 4), ReLU());
  const at::Tensor input = torch::randn({3, 4}, torch::requires_grad());
  Recorder plain(net);
  net->forward(input).square().sum().backward();
  const auto expected = plain.told;
  plain.hook.remove();
  int calls = 0;
  Recorder recorder(net);
  const HookHandle count =
      register_module_hook(net, {.backward = [&](const BackwardCall&) { ++calls; }});
  Recompute::apply(input, &net).square().sum().backward();
  check_same(recorder.told, expected);
  CHECK(calls == 4);
}

TEST_CASE("A backward hook lets a gradient be stolen") {
  const auto layer = std::make_shared<Observed<HandsOutImpl>>();
  std::vector<const void*> shown;
  const HookHandle hook = register_backward_hook(
      layer, [&](const BackwardCall& call) { shown.push_back(call.gradients[0].data_ptr()); });
  at::Tensor input = torch::randn({64, 64}, torch::requires_grad());
  layer->forward(input).backward();
  CHECK(input.grad().data_ptr() == handed_out);
  REQUIRE(shown.size() == 2);
  CHECK(shown[1] == handed_out);
}

TEST_CASE("Backward hooks keep no tensor and no graph alive") {
  torch::nn::LSTM lstm(4, 4);
  const HookHandle hook = register_backward_hook(lstm, [](const BackwardCall&) {});
  at::Tensor input = torch::randn({3, 2, 4}, torch::requires_grad());
  const at::Tensor middle = input * 2;
  std::weak_ptr<torch::autograd::Node> node;
  c10::weak_intrusive_ptr<c10::TensorImpl> kept(middle.getIntrusivePtr());
  {
    const auto [output, state] = lstm(middle);
    node = output.grad_fn();
    output.sum().backward({}, /*retain_graph=*/true);
    CHECK(!node.expired());
  }
  CHECK(node.expired());
  CHECK(kept.use_count() == 1);
}

TEST_CASE("What a backward callback throws reaches the caller of backward") {
  Sequential net(Linear(4, 4), Linear(4, 2));
  const at::Tensor input = torch::randn({3, 4});
  {
    const HookHandle hook = register_backward_hook(
        net->ptr(0), [](const BackwardCall&) { throw std::domain_error("mine"); });
    CHECK_THROWS_AS(net->forward(input).sum().backward(), std::domain_error);
  }
  int calls = 0;
  const HookHandle hook =
      register_backward_hook(net->ptr(0), [&](const BackwardCall&) { ++calls; });
  net->forward(input).sum().backward();
  CHECK(calls == 1);
}

TEST_CASE("A removed hook and one whose module died are not told of a backward") {
  int calls = 0;
  const auto count = [&](const BackwardCall&) { ++calls; };
  at::Tensor loss;
  HookHandle hook;
  SECTION("removed") {
    Linear layer(4, 2);
    hook = register_backward_hook(layer, count);
    loss = layer(torch::randn({3, 4})).sum();
    hook.remove();
  }
  SECTION("died") {
    Linear layer(4, 2);
    hook = register_backward_hook(layer, count);
    loss = layer(torch::randn({3, 4})).sum();
  }
  loss.backward();
  CHECK(calls == 0);
}

TEST_CASE("Nothing is told of forwards without gradients") {
  int calls = 0;
  Linear layer(4, 2);
  const HookHandle hook = register_backward_hook(layer, [&](const BackwardCall&) { ++calls; });
  {
    const torch::NoGradGuard no_grad;
    CHECK(!layer(torch::randn({3, 4})).requires_grad());
  }
  const c10::InferenceMode inference;
  CHECK(!layer(torch::randn({3, 4})).requires_grad());
  CHECK(calls == 0);
}

TEST_CASE("Training with backward hooks ends in the same bits") {
  const auto train_with = [](bool hooked) {
    torch::manual_seed(3);
    Net net;
    HookHandle hook;
    if (hooked) hook = register_module_hook(net, {.backward = [](const BackwardCall&) {}});
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    train(optimizer, [&] { return net->loss(); });
    return torch::cat({net->first->weight.flatten(), net->second->weight.flatten()});
  };
  CHECK(train_with(true).equal(train_with(false)));
}
}  // namespace ddpscope::test
