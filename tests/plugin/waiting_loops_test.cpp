// Loops that wait for data or run out of memory, and loops that only look so.
#include <c10/core/CPUAllocator.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::SGD;
constexpr int kManySteps = 64;

void wait_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(12)); }

void make_step(SGD& optimizer, const at::Tensor& loss) {
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
}

struct Layers : Module {
  at::Tensor forward(const at::Tensor& input) { return second(torch::relu(first(input))); }
  at::Tensor loss(std::int64_t rows = 5) {
    return forward(torch::randn({rows, 8})).square().mean();
  }
  Linear first = register_module("first", Linear(8, 16));
  Linear second = register_module("second", Linear(16, 4));
};

/// The allocator of the host, which refuses whatever is larger than `largest`.
class SmallHost final : public c10::Allocator {
 public:
  explicit SmallHost(std::size_t largest) : largest_(largest) { c10::SetCPUAllocator(this, 255); }
  c10::DataPtr allocate(std::size_t bytes) override {
    TORCH_CHECK(bytes <= largest_,
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", bytes,
                " bytes. Error code 12 (Cannot allocate memory)");
    return c10::GetDefaultCPUAllocator()->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return c10::GetDefaultCPUAllocator()->raw_deleter();
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  std::size_t largest_;
};

/// Whether a forward over so many rows threw for want of memory.
bool throws(Layers& net, std::int64_t rows) {
  try {
    net.loss(rows);
  } catch (const c10::Error&) {
    return true;
  }
  return false;
}
}  // namespace

TEST_CASE("Steps that wait for data are found") {
  Layers net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < kManySteps; ++i) {
    wait_a_little();
    make_step(optimizer, net.loss());
  }
  check_findings({"data-loader-wait warning - - - -"});
  const auto all = findings();
  CHECK(text_fact(*find(all, "data-loader-wait"), "kind") == "waiting");
}

TEST_CASE("A forward that begins outside of layers is no waiting") {
  struct Scaled : Layers {
    at::Tensor loss() {
      const at::Tensor scaled = torch::randn({5, 8}) * scale;
      wait_a_little();
      return forward(scaled).square().mean();
    }
    at::Tensor scale = register_parameter("scale", torch::ones(8));
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < kManySteps; ++i) make_step(optimizer, net.loss());
  check_silent();
}

TEST_CASE("An evaluation between two steps is no waiting") {
  Layers net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < kManySteps; ++i) {
    make_step(optimizer, net.loss());
    const torch::NoGradGuard guard;
    net.eval();
    net.loss();
    wait_a_little();
    net.train();
  }
  check_silent();
}

TEST_CASE("A checkpoint between two steps is no waiting") {
  Layers net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < kManySteps; ++i) {
    make_step(optimizer, net.loss());
    torch::serialize::OutputArchive archive;
    net.save(archive);
    wait_a_little();
  }
  check_silent();
}

TEST_CASE("Data that is made up is no waiting") {
  Layers net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < kManySteps; ++i) {
    const at::Tensor noise = torch::randn({1 << 21});
    make_step(optimizer, net.loss() * noise[0].abs());
  }
  check_silent();
}

TEST_CASE("Data that is made up after the loss was read is no waiting") {
  Layers net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < kManySteps; ++i) {
    const at::Tensor noise = torch::randn({1 << 21});
    const at::Tensor loss = net.loss() * noise[0].abs();
    make_step(optimizer, loss);
    loss.item<float>();
    const torch::NoGradGuard guard;
    loss.detach().cpu().gt(0).sum().item<float>();
  }
  check_silent();
}

TEST_CASE("A batch that products of matrices make after the loss was read is a note") {
  Layers net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  const at::Tensor matrix = torch::randn({700, 700}) * 0.03;
  for (int i = 0; i < kManySteps; ++i) {
    at::Tensor state = torch::ones({700, 700});
    {
      const torch::NoGradGuard guard;
      for (int k = 0; k < 6; ++k) state = state.mm(matrix).tanh();
    }
    const at::Tensor loss = net.loss() * state[0][0].abs();
    make_step(optimizer, loss);
    loss.item<float>();
  }
  check_silent();
  const auto all = findings();
  const Finding* found = find(all, "data-loader-wait");
  REQUIRE(found != nullptr);
  CHECK(found->severity == "note");
}

TEST_CASE("A batch that operators of the training thread make is a note") {
  Layers net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  const at::Tensor matrix = torch::randn({2000, 2000});
  for (int i = 0; i < kManySteps; ++i) {
    const at::Tensor mask = matrix.cumsum(1).cumsum(0).sin().sign();
    make_step(optimizer, net.loss() * mask[0][0].abs());
  }
  check_silent();
  const auto all = findings();
  const Finding* found = find(all, "data-loader-wait");
  REQUIRE(found != nullptr);
  CHECK(found->severity == "note");
}

TEST_CASE("An allocation that fails names the layer and what it was for") {
  static SmallHost host(std::size_t{200} << 10);
  Layers net;
  attach_diagnostics(net, quiet());
  CHECK(throws(net, /*rows=*/4096));
  expect_at_exit({"memory-out-of-memory error first - saved_activations aten::addmm",
                  "module-operator-failed error first - - aten::addmm"});
}

TEST_CASE("An allocation that fails and is tried again with less is a note") {
  static SmallHost host(std::size_t{200} << 10);
  Layers net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < 6; ++i) {
    CHECK(throws(net, /*rows=*/4096));
    make_step(optimizer, net.loss(/*rows=*/64));
  }
  check_silent();
  std::int64_t counted = 0;  // only surveyed steps name the operator
  for (const Finding& finding : findings()) {
    if (finding.id == "memory-out-of-memory") counted += finding.occurrences;
  }
  CHECK(counted == 6);
}

TEST_CASE("Host memory that runs out outside of operators is the program's own matter") {
  Layers net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  for (int i = 0; i < 6; ++i) {
    CHECK_THROWS_AS(std::vector<double>(std::size_t{1} << 58).size(), std::bad_alloc);
    make_step(optimizer, net.loss());
  }
  check_silent();
  const auto all = findings();
  CHECK(find(all, "memory-out-of-memory") == nullptr);
}

}  // namespace ddpscope::test
