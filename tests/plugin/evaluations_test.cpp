// Programs that judge a model's outputs in the wrong mode, or over the wrong dimension, each beside
// its correct twin.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
namespace F = torch::nn::functional;
using torch::optim::SGD;

/// Dropout and batch norm, and what an evaluation judges them by.
struct Judged : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return head(drop(norm(x))); }
  at::Tensor loss() { return torch::mse_loss(forward(input()), torch::zeros({5, 2})); }
  double accuracy() {
    const torch::NoGradGuard guard;
    const at::Tensor labels = torch::zeros(5, torch::kLong);
    return forward(input()).argmax(1).eq(labels).sum().item<double>();
  }
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 2));
};

void train_epochs(Judged& net, int steps, const std::function<void()>& evaluate) {
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int epoch = 0; epoch < 3; ++epoch) {
    train(
        optimizer, [&] { return net.loss(); }, steps);
    evaluate();
  }
}

at::Tensor rows() { return torch::randn({8, 8}); }
at::Tensor classes() { return torch::arange(8).remainder(4); }

/// Trains on a loss of the four outputs for eight rows.
void train_on(Net& net, const std::function<at::Tensor(const at::Tensor&)>& loss) {
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return loss(net->forward(rows())); }, 4);
}
}  // namespace

TEST_CASE("An evaluation in training mode is found") {
  Judged net;
  train_epochs(net, 3, [&] {
    for (int batch = 0; batch < 3; ++batch) net.accuracy();
  });
  check_findings({"module-mode warning norm - evaluation_in_training aten::batch_norm"});
}

TEST_CASE("An evaluation in training mode is found where hooks rest") {
  Judged net;
  train_epochs(net, 300, [&] {
    const torch::NoGradGuard guard;
    for (int batch = 0; batch < 3; ++batch) net.loss();
  });
  const auto all = findings();
  CHECK(text_fact(only(all, "module-mode"), "cause") == "evaluation_in_training");
  CHECK(text_fact(only(all, "module-mode"), "loss_op") == "aten::mse_loss");
}

TEST_CASE("An evaluation in eval mode is silent") {
  Judged net;
  train_epochs(net, 3, [&] {
    net.eval();
    net.accuracy();
    net.train();
  });
  check_silent();
}

TEST_CASE("Outputs in training mode that label the next step are silent") {
  Judged net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  int steps = 0;
  double agreed = 0;
  train(
      optimizer,
      [&] {
        const at::Tensor x = input();
        const at::Tensor labels = [&] {
          const torch::NoGradGuard guard;
          return net.forward(x).argmax(1);
        }();
        const torch::NoGradGuard guard;  // how good they are, now and then
        if (++steps % 8 == 0)
          agreed += labels.eq(torch::zeros(5, torch::kLong)).sum().item<double>();
        const torch::AutoGradMode trains(true);
        return F::cross_entropy(net.forward(x), labels);
      },
      40);
  CHECK(agreed >= 0);
  check_silent();
}

TEST_CASE("A loss without grad beside each step is silent") {
  Judged net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    train(
        optimizer, [&] { return net.loss(); }, 1);
    const torch::NoGradGuard guard;
    net.loss();
  }
  check_silent();
}

TEST_CASE("Log-probabilities over the batch in nll_loss are found as an error") {
  Net net;
  train_on(net, [](const at::Tensor& out) {
    return F::nll_loss(torch::log_softmax(out, 0), classes());
  });
  check_findings({"loss-double-softmax error - - - aten::log_softmax"});
  const auto all = findings();
  CHECK(only(all, "loss-double-softmax").fixes.size() == 1);
}

TEST_CASE("Log-probabilities over the words of a sentence in nll_loss are found as an error") {
  Net net;
  train_on(net, [](const at::Tensor& out) {
    const at::Tensor words = torch::log_softmax(out.view({2, 4, 4}), 1);
    return F::nll_loss(words.view({8, 4}), classes());
  });
  check_findings({"loss-double-softmax error - - - aten::log_softmax"});
}

TEST_CASE("Log-probabilities over the dimension of the classes are silent") {
  Net net;
  train_on(net, [](const at::Tensor& out) {
    const at::Tensor pairs = out.matmul(out.t());
    const at::Tensor words = out.view({2, 4, 4});
    const at::Tensor tokens = torch::log_softmax(words, 2).view({8, 4});
    const at::Tensor turned = torch::log_softmax(words.transpose(1, 2), 1).transpose(1, 2);
    return F::nll_loss(torch::log_softmax(out, -1), classes()) + F::nll_loss(tokens, classes()) +
           F::nll_loss(turned.reshape({8, 4}), classes()) +
           F::nll_loss(torch::log_softmax(pairs, 0), torch::arange(8)) +
           torch::nll_loss(torch::log_softmax(out[0], 0), classes()[0]);
  });
  check_silent();
}

}  // namespace ddpscope::test
