// Operators that throw where hooks rest, when no survey sees them: named by the call stack.
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

}  // namespace ddpscope::test::late_failures_test
