// Memory that changes between a forward and its backward without a trace in a version counter.
#include <cstring>
#include <functional>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;

struct Scaled : Module {
  at::Tensor forward(const at::Tensor& x) { return line(x) * scale; }
  Linear line = register_module("line", Linear(8, 4));
  at::Tensor scale = register_buffer("scale", torch::full({4}, 2.0));
};

/// An input that requires grad, so that backward reads the weights.
at::Tensor trainable_input() { return torch::randn({5, 8}, torch::requires_grad()); }

// As a kernel of the program's own does.
void halve(const at::Tensor& tensor) {
  auto* const values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] *= 0.5F;
}

std::string this_file(int line) { return "hidden_writes_test.cpp:" + std::to_string(line); }
/// `write` stands within a few lines from `line`.
void find_write_to_weight(int line, const std::function<void(const at::Tensor&)>& write) {
  Scaled net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor x = trainable_input();
  const at::Tensor loss = net.line(x).square().sum();
  write(net.line->weight);
  loss.backward();
  const auto all = findings();
  const Finding* const found = find(all, "autograd-silent-overwrite");
  REQUIRE(found != nullptr);
  CHECK(found->module_path == "line");
  CHECK(found->subject == "weight");
  const std::string site = text_fact(*found, "writer_site");
  CAPTURE(site);
  bool is_there = false;
  for (int at = line; at < line + 4; ++at) is_there |= site == this_file(at);
  CHECK(is_there);
}

/// One part of a matrix is saved, the other written.
void write_beside(const at::Tensor& saved, const at::Tensor& written) {
  Scaled net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor loss = (net.line(torch::randn({4, 8})) * saved).sum();
  written.mul_(2);
  loss.backward();
}

void find_write_after_forward(const std::function<void(Scaled&)>& write) {
  Scaled net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor loss = net.forward(input()).square().sum();
  write(net);
  loss.backward();
  check_findings({"autograd-silent-overwrite error - scale - aten::mul"});
}
}  // namespace

TEST_CASE("A parameter that a raw pointer writes between forward and backward is found") {
  Scaled net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor x = trainable_input();
  const int saved = __LINE__ + 1;
  const at::Tensor loss = net.line(x).square().sum();
  halve(net.line->weight);
  loss.backward();
  check_findings({"autograd-silent-overwrite error line weight - aten::addmm"});
  const auto all = findings();
  const Finding* const found = find(all, "autograd-silent-overwrite");
  REQUIRE(found != nullptr);
  CHECK(text_fact(*found, "writer_kind") == "unknown");
  CHECK(text_fact(*found, "saved_site") == this_file(saved));
}

TEST_CASE("A buffer that a raw pointer writes is found") {
  find_write_after_forward([](Scaled& net) { halve(net.scale); });
}

TEST_CASE("A buffer that a copy below autograd writes is found") {
  find_write_after_forward([](Scaled& net) {
    const at::AutoDispatchBelowADInplaceOrView below;
    net.scale.copy_(torch::ones({4}));
  });
}

TEST_CASE("A write to columns through data() is found") {
  find_write_to_weight(__LINE__,
                       [](const at::Tensor& weight) { weight.data().slice(1, 0, 4).mul_(0.5); });
}

TEST_CASE("A write to a row through data() is found") {
  find_write_to_weight(__LINE__, [](const at::Tensor& weight) { weight.data()[0].zero_(); });
}

TEST_CASE("A write to an alias from data() in another shape is found") {
  find_write_to_weight(__LINE__, [](const at::Tensor& weight) {
    const at::Tensor alias = weight.data();
    alias.view({-1}).mul_(0.5);
  });
}

TEST_CASE("A tensor that two nodes saved is counted once") {
  Scaled net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor gate = torch::tanh(net.line(input()));
  const at::Tensor loss = (gate * gate).sum();
  gate.data().mul_(0.5);
  loss.backward();
  const auto all = findings();
  const Finding* const found = find(all, "autograd-silent-overwrite");
  REQUIRE(found != nullptr);
  CHECK(found->what.starts_with("the content of 1 saved tensor (20 elements: [5, 4]) changed"));
}

TEST_CASE("A parameter that is given other memory between forward and backward is found") {
  Scaled net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor loss = (trainable_input().slice(1, 0, 4) * net.line->bias).sum();
  net.line->bias.set_data(net.line->bias.detach() * 0.5);
  loss.backward();
  check_findings({"autograd-silent-overwrite error line bias - aten::mul"});
}

TEST_CASE("The operator that fills a given result is named as programs call it") {
  Scaled net;
  attach_diagnostics(net, quiet());
  net.train();
  at::Tensor result = torch::sigmoid(net.line(input()));
  const at::Tensor loss = result.square().sum();
  {
    const torch::NoGradGuard guard;
    torch::mul_out(result, torch::ones({5, 4}), torch::ones({5, 4}));
  }
  CHECK_THROWS_AS(loss.backward(), c10::Error);
  const auto all = findings();
  const Finding* const found = find(all, "autograd-inplace-saved");
  REQUIRE(found != nullptr);
  CHECK(text_fact(*found, "writer_op") == "aten::mul_out");
}

TEST_CASE("Raw writes after the step and before the next forward are silent") {
  Scaled net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  for (int step = 0; step < 6; ++step) {
    train(
        optimizer, [&] { return net.forward(trainable_input()).square().mean(); }, 1);
    halve(net.scale);
    halve(net.line->bias);
  }
  check_silent();
}

TEST_CASE("Raw writes of the same values are silent") {
  Scaled net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor computed = net.forward(trainable_input()).square().mean();
    const at::Tensor copy = net.scale.clone();
    std::memcpy(net.scale.data_ptr(), copy.data_ptr(), copy.nbytes());
    return computed;
  });
  check_silent();
}

TEST_CASE("A hidden write to other columns of a saved matrix is silent") {
  const at::Tensor both = torch::randn({4, 8});
  write_beside(both.slice(1, 4, 8), both.data().slice(1, 0, 4));
  check_findings({});
}

TEST_CASE("A hidden write to some of the columns of a saved matrix is found") {
  const at::Tensor both = torch::randn({4, 8});
  write_beside(both.slice(1, 4, 8), both.data().slice(1, 2, 6));
  check_findings({"autograd-silent-overwrite error - - - aten::mul"});
}

namespace {
/// An average of the parameters, in their own memory or in a copy of it.
void average_into(bool shares) {
  Net online, target;
  attach_diagnostics(online, quiet()).name("online");
  attach_diagnostics(target, quiet()).name("target");
  const auto sources = online->parameters();
  const auto targets = target->parameters();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    targets[i].set_data(shares ? sources[i].detach() : sources[i].detach().clone());
  }
  torch::optim::SGD optimizer(sources, 0.01);
  for (int step = 0; step < 6; ++step) {
    train(
        optimizer, [&] { return online->loss(); }, 1);
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < sources.size(); ++i) targets[i].mul_(0.9).add_(sources[i], 0.1);
  }
}
}  // namespace

TEST_CASE("A target network in the memory of the online one is found") {
  average_into(/*shares=*/true);
  check_findings({"module-copy-shares warning - - - -"});
}

TEST_CASE("A target network in a copy of that memory is silent") {
  average_into(/*shares=*/false);
  check_silent(2);
}

}  // namespace ddpscope::test
