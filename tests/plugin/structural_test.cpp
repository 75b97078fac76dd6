// Programs with operators that throw, tensors that are registered nowhere and heads times zero,
// each beside its correct twin.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::SGD;

bool is_found(const std::string& id) { return find(findings(), id) != nullptr; }
}  // namespace

TEST_CASE("A view of a permuted tensor is named where it threw") {
  struct Permuting : Module {
    at::Tensor loss(bool threw = false) {
      const at::Tensor y = layer(torch::randn({2, 3, 8})).permute({0, 2, 1});
      return (threw ? y.view({-1}) : y.reshape({-1})).square().mean();
    }
    Linear layer = register_module("layer", Linear(8, 4));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(
      optimizer, [&] { return net.loss(); }, 1);
  CHECK_THROWS_AS(net.loss(true), c10::Error);
  expect_at_exit({"module-operator-failed error - - - aten::view"});
}

TEST_CASE("A stack of two lengths is named where it threw") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return net->loss(); }, 1);
  CHECK_THROWS_AS(torch::stack({torch::ones({3}), torch::ones({4})}), c10::Error);
  expect_at_exit({"module-operator-failed error - - - aten::stack"});
}

TEST_CASE("A layer that is fed the wrong width is named") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  CHECK_THROWS_AS(net->forward(torch::ones({5, 9})), c10::Error);
  expect_at_exit({"module-operator-failed error first - - aten::addmm"});
}

TEST_CASE("An operator that the program recovers from is a note") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  CHECK_THROWS_AS(net->forward(torch::ones({5, 9})), c10::Error);
  train(optimizer, [&] { return net->loss(); });
  check_findings({});
  const auto all = findings();
  const Finding* found = find(all, "module-operator-failed");
  REQUIRE(found != nullptr);
  CHECK(found->op == "aten::addmm");
  CHECK(found->what.starts_with("threw at torch_test.h:"));
  CHECK(found->what.ends_with(
      " on inputs [16] of first.bias; [5, 9]; [8, 16], strides (1, 8) of first.weight"));
  CHECK(found->why.find("shapes cannot be multiplied") != std::string::npos);
}

namespace {
struct TooDeep : std::exception {
  const char* what() const noexcept override { std::abort(); }  // ours to call it is not
};

at::Tensor fail(const at::Tensor& x) {
  if (x.dim() == 1) throw std::length_error("one row too many");
  throw TooDeep();
}

std::string told_exception(const std::function<void()>& failing) {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  CHECK_THROWS(failing());
  train(optimizer, [&] { return net->loss(); });
  const auto all = findings();
  const Finding* found = find(all, "module-operator-failed");
  return found == nullptr ? "no finding" : text_fact(*found, "exception");
}

void call_failing_operator(const at::Tensor& x) {
  static torch::Library library(torch::Library::DEF, "guest", std::nullopt, __FILE__, __LINE__);
  static const bool defined = (library.def("fail", fail), true);
  REQUIRE(defined);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("guest::fail", "");
  op.typed<at::Tensor(const at::Tensor&)>().call(x);
}
}  // namespace

TEST_CASE("An index error of LibTorch keeps its text") {
  CHECK(told_exception([] { torch::ones({3}).select(0, 5); }) ==
        "select(): index 5 out of range for tensor of size [3] at dimension 0");
}

TEST_CASE("An operator's standard exception keeps its text") {
  CHECK(told_exception([] { call_failing_operator(torch::ones({3})); }) == "one row too many");
}

TEST_CASE("An exception with a text of the program's own is told by its type") {
  const std::string told = told_exception([] { call_failing_operator(torch::ones({3, 1})); });
  CHECK(told.find("TooDeep") != std::string::npos);
}

TEST_CASE("An exception of the program itself is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 4; ++i) {
    CHECK_THROWS_AS(net->loss().item<float>() >= 0 ? throw std::runtime_error("no file") : 0,
                    std::runtime_error);
    train(
        optimizer, [&] { return net->loss(); }, 2);
  }
  check_silent();
  CHECK(!is_found("module-operator-failed"));
}

namespace {
// What stands between two layers is the case.
struct Between : Module {
  at::Tensor forward(const at::Tensor& x) { return second(between(first(x))); }
  at::Tensor loss() { return forward(input()).square().mean(); }
  Linear first = register_module("first", Linear(8, 8));
  Linear second = register_module("second", Linear(8, 2));
  std::function<at::Tensor(const at::Tensor&)> between;
};

void train_between(Between& net) {
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
}

void check_note_of(const std::string& op, const std::string& subject) {
  check_findings({});
  const auto all = findings();
  const Finding* found = find(all, "module-plain-tensor");
  REQUIRE(found != nullptr);
  CHECK(found->severity == "note");
  CHECK(found->op == op);
  CHECK(found->subject == subject);
}

at::Tensor follow(const at::Tensor& mean, const at::Tensor& x) {
  {
    const torch::NoGradGuard guard;
    mean.mul_(0.9).add_(x.mean(0), 0.1);
  }
  return x - mean;
}
}  // namespace

TEST_CASE("A statistic that is a plain member is found") {
  Between net;
  const at::Tensor mean = torch::zeros({8});
  net.between = [&](const at::Tensor& x) { return follow(mean, x); };
  train_between(net);
  check_findings({"module-plain-tensor warning - tensor [8] - aten::sub"});
}

TEST_CASE("A constant that is a plain member is a note") {
  Between net;
  const at::Tensor betas = torch::rand({8});
  net.between = [&](const at::Tensor& x) { return x * betas; };
  train_between(net);
  check_note_of("aten::mul", "tensor [8]");
}

TEST_CASE("A constant that is a plain member and read in part is a note") {
  Between net;
  const at::Tensor places = torch::rand({9, 8}).unsqueeze(0);
  net.between = [&](const at::Tensor& x) { return x + places.slice(1, 0, x.size(0))[0]; };
  train_between(net);
  check_note_of("aten::add", "tensor [9, 8]");
}

TEST_CASE("A part of the data that enters between two layers is silent") {
  Between net;
  const at::Tensor conditions = torch::rand({64, 8});
  std::int64_t step = 0;
  net.between = [&](const at::Tensor& x) {
    const std::int64_t begin = step++ % 4 * x.size(0);
    return x + conditions.slice(0, begin, begin + x.size(0));
  };
  train_between(net);
  check_silent();
  CHECK(!is_found("module-plain-tensor"));
}

TEST_CASE("A statistic and a constant that are buffers are silent") {
  Between net;
  const at::Tensor mean = net.register_buffer("mean", torch::zeros({8}));
  const at::Tensor betas = net.register_buffer("betas", torch::rand({8}));
  net.between = [&](const at::Tensor& x) { return follow(mean, x) * betas; };
  train_between(net);
  check_silent();
  CHECK(!is_found("module-plain-tensor"));
}

TEST_CASE("Inputs and targets and states are silent") {
  struct Recurrent : Module {
    at::Tensor loss() {
      at::Tensor state = torch::zeros({5, 8});
      for (int i = 0; i < 3; ++i) {
        const at::Tensor mask = torch::rand({5, 8}).gt(0.5).to(torch::kFloat);
        state = (cell(x + table.slice(0, 0, 5)) + state * mask).tanh();
      }
      last = state.detach();
      return (head(state) - target).square().mean();
    }
    const at::Tensor x = torch::randn({5, 8});
    const at::Tensor target = torch::randn({5, 2});
    at::Tensor last;
    at::Tensor table = register_buffer("table", torch::randn({6, 8}));
    Linear cell = register_module("cell", Linear(8, 8));
    Linear head = register_module("head", Linear(8, 2));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_silent();
  CHECK(!is_found("module-plain-tensor"));
}

namespace {
// How the side head enters the loss is the case.
struct TwoHeads : Module {
  at::Tensor main_loss() { return body(input()).square().mean(); }
  at::Tensor side_sum() { return side(input()).sum(); }
  Linear body = register_module("body", Linear(8, 8));
  Linear side = register_module("side", Linear(8, 4));
};

void train_decaying(TwoHeads& net, const std::function<at::Tensor()>& loss) {
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.01).weight_decay(0.1));
  train(optimizer, loss);
}
}  // namespace

TEST_CASE("A head that is multiplied by the number zero is found") {
  TwoHeads net;
  train_decaying(net, [&] { return net.main_loss() + 0 * net.side_sum(); });
  check_findings({"grad-zero-instead-of-none warning side - times_zero -"});
}

TEST_CASE("A head that is multiplied by a tensor of zero is found") {
  TwoHeads net;
  train_decaying(net, [&] { return net.main_loss() + torch::tensor(-0.0) * net.side_sum(); });
  check_findings({"grad-zero-instead-of-none warning side - times_zero -"});
}

TEST_CASE("A head times zero that nothing decays is a note") {
  TwoHeads net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.main_loss() + 0 * net.side_sum(); });
  check_findings({});
  CHECK(is_found("grad-zero-instead-of-none"));
}

TEST_CASE("A head of which the loss takes a part is silent") {
  TwoHeads net;
  train_decaying(net, [&] { return net.main_loss() + 0.5 * net.side_sum(); });
  check_silent();
}

TEST_CASE("A head whose activation is dead is silent") {
  TwoHeads net;
  train_decaying(net, [&] { return net.main_loss() + (net.side(input()) - 100).relu().sum(); });
  check_silent();
  CHECK(!is_found("grad-zero-instead-of-none"));
}

TEST_CASE("A loss times a penalty that happens to be zero is silent") {
  TwoHeads net;
  train_decaying(net, [&] {
    const at::Tensor penalty = (net.side(input()) - 100).relu().sum();
    return net.main_loss() + penalty * net.main_loss();
  });
  check_silent();
  CHECK(!is_found("grad-zero-instead-of-none"));
}

}  // namespace ddpscope::test
