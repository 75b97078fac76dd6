// Programs in which NaN or Inf appears once, and programs that hold such values on purpose.
#include <cmath>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {

/// Two layers with something of the program's own between them.
struct BetweenImpl : torch::nn::Module {
  torch::nn::Linear first{register_module("first", torch::nn::Linear(8, 8))};
  torch::nn::Linear second{register_module("second", torch::nn::Linear(8, 4))};
  at::Tensor run(const std::function<at::Tensor(at::Tensor)>& between) {
    const at::Tensor x = torch::randn({4, 8});
    return second(between(torch::relu(first(x)))).square().mean();
  }
};
TORCH_MODULE(Between);

using Fault = std::function<at::Tensor(at::Tensor)>;
at::Tensor unchanged(at::Tensor x) { return x; }

/// Trains; the fault takes place in this step.
void train_until(Between& net, int step, const Fault& fault) {
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int i = 1; i <= 8; ++i) {
    optimizer.zero_grad();
    net->run(i == step ? fault : unchanged).backward();
    optimizer.step();
  }
}

const Finding& only_one(const std::vector<Finding>& all, const char* id) {
  const Finding* found = find(all, id);
  REQUIRE(found != nullptr);
  CHECK(std::ranges::count(all, id, &Finding::id) == 1);
  return *found;
}

void check_operator(int step, const Fault& fault, const char* op) {
  Between net;
  attach_diagnostics(net, quiet());
  train_until(net, step, fault);
  const auto all = findings();
  const Finding& found = only_one(all, "numeric-nonfinite-forward");
  CHECK(found.step == step);
  CHECK(found.op == op);
  CHECK(found.module_path.empty());  // between two layers of the root
  CHECK(text_fact(found, "cause") == "operator");
}
}  // namespace

TEST_CASE("A logarithm of 0 is named in a surveyed step") {
  check_operator(
      2, [](at::Tensor x) { return x.log(); }, "aten::log");
  const auto all = findings();
  CHECK(text_fact(only_one(all, "numeric-nonfinite-forward"), "dtype") == "float32");
  CHECK(text_fact(only_one(all, "numeric-risky-domain"), "dtype") == "float32");
}

TEST_CASE("A logarithm of 0 is named in any other step") {
  check_operator(
      7, [](at::Tensor x) { return x.log(); }, "aten::log");
}

TEST_CASE("A division of 0 by 0 is named behind operators that save nothing") {
  check_operator(
      7, [](at::Tensor x) { return (x / (x - x.detach())).neg() + 1; }, "aten::div");
}

TEST_CASE("The mean of no elements is named, not what selected none") {
  check_operator(
      5, [](at::Tensor x) { return x + (x.index({x > 1e9}) - 1).pow(2).mean(); }, "aten::mean");
  const auto all = findings();
  const Finding& found = only_one(all, "numeric-nonfinite-forward");
  CHECK(found.what == "NaN or Inf began here (its result was not kept), its input has no elements");
}

TEST_CASE("A logarithm of 0 beside the loss is silent") {
  Between net;
  attach_diagnostics(net, quiet());
  train_until(net, 0, unchanged);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&net] {
    at::Tensor logarithms;
    const at::Tensor loss = net->run([&logarithms](at::Tensor x) {
      logarithms = (x * 0).log();
      return x;
    });
    CHECK(logarithms.sum().item<double>() < 0);
    return loss;
  });
  check_silent();
}

TEST_CASE("An exponential that overflows is named") {
  check_operator(
      7, [](at::Tensor x) { return (x * 100 + 100).exp(); }, "aten::exp");
}

TEST_CASE("The mean and deviation that a norm keeps are not taken for the batch") {
  const auto overflow_and_normalize = [](at::Tensor x) {
    return torch::group_norm(torch::layer_norm((x * 100 + 100).exp(), {8}), 2);
  };
  check_operator(7, overflow_and_normalize, "aten::exp");
}

TEST_CASE("Neither the mask nor the sums of attention are taken for the batch") {
  const auto attend = [](const at::Tensor& x) {
    const at::Tensor words = x.view({1, 1, 4, 8});
    const at::Tensor mask = torch::full({4, 4}, -INFINITY).triu(1);
    return at::scaled_dot_product_attention(words, words, words, mask).view({4, 8});
  };
  check_operator(
      7, [&](at::Tensor x) { return attend(x.log()); }, "aten::log");
}

TEST_CASE("A batch with NaN is named as the batch") {
  Between net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int i = 1; i <= 7; ++i) {
    optimizer.zero_grad();
    at::Tensor x = torch::randn({4, 8});
    if (i == 6) x[1][2] = std::nan("");
    net->second(torch::relu(net->first(x))).square().mean().backward();
    optimizer.step();
  }
  const auto all = findings();
  const Finding& found = only_one(all, "numeric-nonfinite-forward");
  CHECK(found.step == 6);
  CHECK(text_fact(found, "cause") == "batch");
  CHECK(found.module_path == "first");
}

TEST_CASE("A parameter that was set to Inf is named, and no other one") {
  Between net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int i = 1; i <= 7; ++i) {
    if (i == 5) {
      const torch::NoGradGuard guard;
      net->second->bias[1] = INFINITY;
    }
    optimizer.zero_grad();
    net->run(unchanged).backward();
    optimizer.step();
  }
  const auto all = findings();
  const Finding& found = only_one(all, "numeric-nonfinite-forward");
  CHECK(found.step == 5);
  CHECK(text_fact(found, "cause") == "parameter");
  CHECK(found.module_path == "second");
  CHECK(found.subject == "bias");
}

TEST_CASE("A slope that is masked behind its operator is named in backward") {
  Between net;
  attach_diagnostics(net, quiet());
  train_until(net, 6,
              [](at::Tensor x) { return torch::where(x > 1e6, (x - x.detach()).log(), x); });
  const auto all = findings();
  const Finding& found = only_one(all, "numeric-nonfinite-backward");
  CHECK(found.step == 6);
  CHECK(text_fact(found, "node") == "LogBackward0");
  CHECK(find(all, "numeric-nonfinite-forward") == nullptr);
}

TEST_CASE("Gradients that float16 flushes to zero are found") {
  struct Weighted : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::ones({8}, at::kHalf));
  } net;
  attach_diagnostics(net, quiet());
  at::Tensor factors = torch::full({8}, 1e-9);
  factors[0] = 2e-6;
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  const auto loss = [&] { return (net.weight.to(at::kFloat) * factors).sum(); };
  train(optimizer, loss, /*steps=*/40);
  const auto all = findings();
  CHECK(text_fact(only_one(all, "numeric-half-range"), "kind") == "underflow");
}

TEST_CASE("Infinite masks that softmax takes away are silent") {
  Between net;
  attach_diagnostics(net, quiet());
  const auto masked = [](at::Tensor x) {
    const at::Tensor mask = torch::tensor({0, 1, 0, 0, 1, 0, 0, 0}).to(torch::kBool);
    return torch::softmax(x.masked_fill(mask, -INFINITY), 1);
  };
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->run(masked); });
  check_silent();
}

TEST_CASE("A small term in float32 is not lost beside a loss in float16") {
  Between net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->run(unchanged).to(torch::kHalf) + torch::tensor(1e-9F); });
  const auto all = findings();
  CHECK(find(all, "numeric-risky-domain") == nullptr);
}

TEST_CASE("Infinity that never reaches the loss is silent") {
  Between net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor loss = net->run([](at::Tensor x) {
      const at::Tensor score = (x - x.detach()).log();  // a metric
      return x + torch::isinf(score).to(torch::kFloat).detach();
    });
    return loss;
  });
  const auto all = findings();
  CHECK(find(all, "numeric-nonfinite-forward") == nullptr);
  CHECK(find(all, "numeric-nonfinite-backward") == nullptr);
  CHECK(find(all, "numeric-nonfinite-gradient") == nullptr);
}

TEST_CASE("A loss scaler that skips two steps is silent") {
  Between net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  double scale = 1e39;
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    (net->run(unchanged) * scale).backward();
    bool finite = true;
    for (auto& parameter : net->parameters()) {
      finite = finite && torch::isfinite(parameter.grad()).all().item<bool>();
      parameter.mutable_grad().div_(scale);
    }
    if (finite) {
      optimizer.step();
    } else {
      scale /= 1e20;
    }
  }
  const auto all = findings();
  CHECK(find(all, "numeric-nonfinite-forward") == nullptr);
  CHECK(find(all, "numeric-nonfinite-backward") == nullptr);
  CHECK(find(all, "numeric-nonfinite-gradient") == nullptr);
}

TEST_CASE("A scaled loss that overflows in a step that is made is found") {
  Between net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 6; ++i) {
    optimizer.zero_grad();
    (net->run(unchanged) * (i == 4 ? 1e39 : 1.0)).backward();
    optimizer.step();
  }
  const auto all = findings();
  const Finding* finding = find(all, "numeric-nonfinite-forward");
  REQUIRE(finding != nullptr);
  CHECK(finding->step == 5);
}

TEST_CASE("Gradients that the program repairs before each step are a note") {
  Between net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 6; ++i) {
    optimizer.zero_grad();
    const at::Tensor loss = net->run(unchanged);
    (loss + (loss - loss.detach()).abs().sqrt() * 0).backward();  // its slope is 0 * Inf
    for (auto& parameter : net->parameters()) {
      parameter.mutable_grad().nan_to_num_(0.0);
    }
    optimizer.step();
  }
  const auto all = findings();
  CHECK(only_one(all, "numeric-nonfinite-gradient").severity == "note");
}

TEST_CASE("An element of a parameter may be written while operators are surveyed") {
  const Outcome outcome = in_child([] {
    Between net;
    attach_diagnostics(net, quiet());
    {
      const torch::NoGradGuard guard;
      net->second->bias[1] = 2;
    }
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    train(optimizer, [&] { return net->run(unchanged); });
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  const auto summaries = records("summary");
  REQUIRE(summaries.size() == 1);
  // A hook that fails blocks its source.
  CHECK(summaries[0].find("a hook of this source failed") == std::string::npos);
  CHECK(summaries[0].find(R"("rank-step-lag":"one rank")") != std::string::npos);
}

}  // namespace ddpscope::test
