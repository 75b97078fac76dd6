// Programs whose batches are too small for their layers or lie on another device, each beside its
// correct twin. The device `meta` stands for any that is not the CPU.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::BatchNorm1d;
using torch::nn::BatchNorm2d;
using torch::nn::BatchNormOptions;
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::SGD;

struct Normed : Module {
  at::Tensor loss(std::int64_t rows) {
    return head(norm(layer(torch::randn({rows, 8}))).relu()).square().mean();
  }
  Linear layer = register_module("layer", Linear(8, 8));
  BatchNorm1d norm = register_module("norm", BatchNorm1d(8));
  Linear head = register_module("head", Linear(8, 2));
};

void train_rows(Normed& net, const std::vector<std::int64_t>& rows) {
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (const std::int64_t count : rows) {
    train(
        optimizer, [&] { return net.loss(count); }, 1);
  }
}
}  // namespace

TEST_CASE("A batch of one row names the layer that refuses it") {
  Normed net;
  CHECK_THROWS_AS(train_rows(net, {5, 5, 5, 5, 5, 1}), c10::Error);
  expect_at_exit({"norm-batch-of-one error norm - - aten::batch_norm"});
}

TEST_CASE("A batch of one row that the program skips is a note") {
  Normed net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  CHECK_THROWS_AS(net.loss(1), c10::Error);
  train(optimizer, [&] { return net.loss(5); });
  check_findings({});
  const auto all = findings();
  const Finding* found = find(all, "norm-batch-of-one");
  REQUIRE(found != nullptr);
  CHECK(found->module_path == "norm");
  CHECK(text_fact(*found, "input_shape") == "[1, 8]");
}

TEST_CASE("Batches of three rows are found in steps without a survey") {
  Normed net;
  train_rows(net, {5, 5, 5, 5, 5, 3, 5, 5, 3, 5});
  check_findings({"norm-batch-of-one warning norm - - aten::batch_norm"});
}

TEST_CASE("Three rows in one step are silent") {
  Normed net;
  train_rows(net, {5, 5, 5, 5, 5, 3, 5, 5, 5, 5});
  check_silent();
}

TEST_CASE("Few values without running statistics are found") {
  Normed net;
  net.norm =
      net.replace_module("norm", BatchNorm1d(BatchNormOptions(8).track_running_stats(false)));
  train_rows(net, {3, 3, 3, 3});
  check_findings({"norm-batch-of-one warning norm - - aten::batch_norm"});
}

TEST_CASE("A single image with five pixels and instances of few values are silent") {
  struct Pictures : Module {
    at::Tensor loss() {
      const at::Tensor normed = batch(conv(torch::randn({1, 3, 5, 1})));
      return instance(normed.narrow(2, 0, 2).relu()).square().mean();
    }
    torch::nn::Conv2d conv =
        register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 1)));
    BatchNorm2d batch = register_module("batch", BatchNorm2d(4));
    torch::nn::InstanceNorm2d instance = register_module(
        "instance",
        torch::nn::InstanceNorm2d(
            torch::nn::InstanceNorm2dOptions(4).affine(true).track_running_stats(true)));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_silent();
}

TEST_CASE("An evaluation of three rows is silent") {
  Normed net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < 4; ++i) {
    net.train();
    train(
        optimizer, [&] { return net.loss(5); }, 1);
    net.eval();
    const torch::NoGradGuard guard;
    net.loss(3);
    net.loss(1);
  }
  check_silent();
}

TEST_CASE("A plain tensor on another device is named") {
  struct Scaled : Module {
    at::Tensor loss() { return (layer(torch::randn({5, 8})) * scale).square().mean(); }
    Linear layer = register_module("layer", Linear(8, 8));
    at::Tensor scale = torch::ones({8}, torch::TensorOptions(torch::kMeta).requires_grad(true));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  CHECK_THROWS_AS(net.loss(), c10::Error);
  expect_at_exit({"device-mismatch error - tensor [8] - aten::mul",
                  "module-operator-failed error - - - aten::mul"});
}

namespace {
struct Gained : Module {
  at::Tensor loss(const at::Tensor& x) { return layer(x * gain).square().mean(); }
  at::Tensor gain = register_parameter("gain", torch::ones({8}));
  Linear layer = register_module("layer", Linear(8, 8));
};
const at::TensorOptions kElsewhere = torch::TensorOptions(torch::kMeta);
}  // namespace

TEST_CASE("A batch on another device is named") {
  Gained net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(
      optimizer,
      [&] {
        return net.loss(torch::randn({5, 8}));
      },
      1);
  CHECK_THROWS_AS(net.loss(torch::randn({5, 8}, kElsewhere)), c10::Error);
  expect_at_exit(
      {"device-mismatch error - - - aten::mul", "module-operator-failed error - - - aten::mul"});
}

TEST_CASE("A buffer that is registered on another device is named") {
  struct Shifted : Module {
    at::Tensor loss(const at::Tensor& x) { return (layer(x) + shift).square().mean(); }
    Linear layer = register_module("layer", Linear(8, 8));
    at::Tensor shift = register_buffer("shift", torch::ones({8}, kElsewhere));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  CHECK_THROWS_AS(net.loss(torch::randn({5, 8})), c10::Error);
  expect_at_exit({"device-mismatch error - shift - aten::add",
                  "module-operator-failed error - - - aten::add"});
}

TEST_CASE("A batch on another device that the program skips is a note") {
  Gained net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  CHECK_THROWS_AS(net.loss(torch::ones({5, 8}, kElsewhere)), c10::Error);
  train(optimizer, [&] { return net.loss(torch::ones({5, 8})); });
  check_findings({});
  const auto all = findings();
  const Finding* found = find(all, "device-mismatch");
  REQUIRE(found != nullptr);
  CHECK(text_fact(*found, "owner_kind") == "batch");
}

TEST_CASE("Numbers of the CPU and copies between devices are silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor elsewhere = torch::ones({5, 8}, torch::kMeta) * torch::tensor(2.0);
    CHECK_THROWS_AS(elsewhere.to(torch::kCPU), c10::Error);  // meta has no values to copy
    return net->loss();
  });
  check_silent();
  CHECK(find(findings(), "device-mismatch") == nullptr);
}

}  // namespace ddpscope::test
