// Backwards through graphs that an earlier one freed.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
std::string line_of_file(int line) { return "freed_graphs_test.cpp:" + std::to_string(line); }
}  // namespace

TEST_CASE("A second backward through a freed graph is named with both passes") {
  Net net;
  attach_diagnostics(net, quiet());
  net->train();
  const at::Tensor loss = net(input()).square().mean();
  const int first = __LINE__ + 1;
  loss.backward();
  const int second = __LINE__ + 1;
  CHECK_THROWS_AS(loss.backward(), c10::Error);
  check_findings({"autograd-double-backward error - - - aten::mean"});
  const auto all = findings();
  const Finding& found = only(all, "autograd-double-backward");
  CHECK(text_fact(found, "first_site") == line_of_file(first));
  CHECK(text_fact(found, "second_site") == line_of_file(second));
}

TEST_CASE("Two losses that share a graph are told from where they share it") {
  Net net;
  attach_diagnostics(net, quiet());
  net->train();
  const at::Tensor fake = torch::tanh(net(input()));
  at::Tensor first = fake.square().mean();
  first.backward();
  first = at::Tensor();
  CHECK_THROWS_AS(fake.abs().mean().backward(), c10::Error);
  check_findings({"autograd-double-backward error - - - aten::tanh"});
}

TEST_CASE("A pass to its inputs alone is not taken for the one that freed the graph before them") {
  Net net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.0);
  at::Tensor chain = input().requires_grad_();
  const auto descend = [&] {  // forgets to detach
    const at::Tensor slope = torch::autograd::grad({net(chain).sum()}, {chain})[0];
    chain = torch::tanh(chain - 0.1 * slope);
  };
  const auto train_once = [&] {
    descend();
    optimizer.zero_grad();
    net(chain).sum().backward();
    optimizer.step();
  };
  train_once();
  CHECK_THROWS_AS(train_once(), c10::Error);
  const auto all = findings();
  const Finding& found = only(all, "autograd-double-backward");
  CHECK(text_fact(found, "first_site") == text_fact(found, "second_site"));
}

}  // namespace ddpscope::test
