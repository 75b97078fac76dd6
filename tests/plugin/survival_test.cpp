// Programs that do rough things: they end as they would without ddpscope, which says nothing.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::SGD;

void train_one(Net net, int steps) {
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return net->loss(); }, steps);
}

std::int64_t resident_kb() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}
}  // namespace

TEST_CASE("Four threads that train four models are silent") {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { train_one(Net(), 12); });
  for (std::thread& thread : threads) thread.join();
  check_silent(1, 1);  // how their steps interleave is theirs
}

TEST_CASE("A model that is built on another thread is silent") {
  Net net(nullptr);
  std::thread([&] {
    net = Net();
    net->to(torch::kFloat);
  }).join();
  train_one(net, 8);
  check_silent();
}

TEST_CASE("Temporary models by the thousand are silent") {
  for (int i = 0; i < 2000; ++i) {
    Net temporary;
    temporary->parameters();
    auto owned = std::make_unique<NetImpl>();
    owned->train();
  }
  train_one(Net(), 8);
  check_silent();
}

TEST_CASE("Copies and clones are silent") {
  Net net;
  train_one(net, 4);
  NetImpl copy(*net);
  copy.eval();
  struct Cloneable : torch::nn::Cloneable<Cloneable> {
    Cloneable() { reset(); }
    void reset() override { layer = register_module("layer", Linear(8, 2)); }
    Linear layer{nullptr};
  };
  const auto original = std::make_shared<Cloneable>();
  const auto twin = std::dynamic_pointer_cast<Cloneable>(original->clone());
  SGD optimizer(twin->parameters(), 0.01);
  train(optimizer, [&] { return twin->layer(input()).square().mean(); });
  train_one(net, 4);
  check_silent();
}

TEST_CASE("A model without parameters is silent") {
  struct Empty : Module {
  } empty;
  attach_diagnostics(empty, quiet());
  empty.train();
  CHECK(empty.parameters().empty());
  train_one(Net(), 8);
  check_silent();
}

TEST_CASE("An exception in a forward is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 4; ++i) {
    CHECK_THROWS_AS(net->forward(torch::ones({5, 9})), c10::Error);
    train(
        optimizer, [&] { return net->loss(); }, 2);
  }
  for (const Finding& finding : findings()) CHECK(finding.severity == "note");
}

TEST_CASE("An exception in a backward is silent") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 4; ++i) {
    CHECK_THROWS_AS(net->forward(input()).backward(), c10::Error);  // no scalar
    train(
        optimizer, [&] { return net->loss(); }, 2);
  }
  for (const Finding& finding : findings()) CHECK(finding.severity == "note");
}

TEST_CASE("A process that exits inside the loop keeps its code") {
  const Outcome outcome = in_child([] {
    Net net;
    attach_diagnostics(net, quiet());
    SGD optimizer(net->parameters(), 0.01);
    train(optimizer, [&] { return net->loss(); });
    net->loss().register_hook([](const at::Tensor&) { std::exit(9); });
    net->loss().backward();
    std::exit(11);
    return 0;
  });
  CHECK(outcome.exit_code == 11);
  CHECK(records("summary").size() == 1);
}

TEST_CASE("A process that exits inside a backward keeps its code") {
  const Outcome outcome = in_child([] {
    Net net;
    attach_diagnostics(net, quiet());
    SGD optimizer(net->parameters(), 0.01);
    train(optimizer, [&] { return net->loss(); });
    const at::Tensor loss = net->loss();
    loss.register_hook([](const at::Tensor&) { std::exit(9); });
    loss.backward();
    return 0;
  });
  CHECK(outcome.exit_code == 9);
}

TEST_CASE("A process that exits quickly keeps its code") {
  const Outcome outcome = in_child([] {
    train_one(Net(), 8);
    std::quick_exit(12);
    return 0;
  });
  CHECK(outcome.exit_code == 12);
}

TEST_CASE("Ten thousand steps do not grow our memory") {
  at::set_num_threads(1);
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  const auto steps = [&](int count) {
    train(
        optimizer, [&] { return net->loss(); }, count);
  };
  steps(3000);
  const std::int64_t before = resident_kb();
  steps(10'000);
  CHECK(resident_kb() < before + 2048);
  check_silent();
}

}  // namespace ddpscope::test
