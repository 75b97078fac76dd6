// Operators that throw where hooks rest, when no survey sees them: named by the call stack. And
// models that come there, after so many others that they are looked at when hooks wake.
#include "tests/support/torch_test.h"

namespace ddpscope::test::late_failures_test {
namespace {
/// In step 101, where hooks rest, `failing` throws.
void throw_late(const char* level, const std::function<void(Net&)>& failing,
                const std::string& expected) {
  Net net;
  Options options = quiet();
  options.level = level;
  attach_diagnostics(net, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&net] { return net->loss(); }, /*steps=*/100);
  CHECK_THROWS_AS(failing(net), c10::Error);
  expect_at_exit({expected});
}

/// Trains more models than are surveyed.
void train_many() {
  at::set_num_threads(1);
  for (int i = 0; i < 40; ++i) {
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    train(
        optimizer, [&net] { return net->loss(); }, /*steps=*/25);
  }
}
}  // namespace

TEST_CASE("A layer that throws where hooks rest is named with its operator") {
  throw_late(
      "values",
      [](Net& net) {
        net->forward(torch::ones({5, 9}));
      },
      "module-operator-failed error first - - aten::addmm");
}

TEST_CASE("An operator of the program that throws where hooks rest is named") {
  throw_late(
      "values", [](Net&) { torch::ones({2}).add_(torch::ones({3})); },
      "module-operator-failed error - - - aten::add_");
}

TEST_CASE("An operator that throws before anything was trained is named") {
  Net net;
  attach_diagnostics(net, quiet());
  CHECK_THROWS_AS(torch::ones({2}).add_(torch::ones({3})), c10::Error);
  expect_at_exit({"module-operator-failed error - - - aten::add_"});
}

TEST_CASE("An operator of the program that throws is named at level watch") {
  throw_late(
      "watch", [](Net&) { torch::ones({2}).add_(torch::ones({3})); },
      "module-operator-failed error - - - aten::add_");
}

TEST_CASE("What the optimizer of a model omits that follows many others is found") {
  train_many();
  Side net;
  attach_diagnostics(net, quiet());
  CHECK(net->parameters().size() == 4);
  torch::optim::SGD optimizer({net->body->weight, net->body->bias, net->side->weight}, 1e-6);
  train(
      optimizer, [&net] { return net->main_loss() + net->side(input()).square().mean(); },
      /*steps=*/8000);
  check_findings({"optim-missing-parameter error side bias group_omits -"});
}

TEST_CASE("A layer that throws in a model that follows many others is named") {
  train_many();
  Side net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&net] { return net->main_loss() + net->side(input()).square().mean(); },
      /*steps=*/2);
  CHECK_THROWS_AS(net->side(torch::ones({5, 9})), c10::Error);
  expect_at_exit({"module-operator-failed error side - - aten::addmm"});
}

}  // namespace ddpscope::test::late_failures_test
