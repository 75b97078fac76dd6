// More gradients than the first table of gradients holds.
#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
constexpr int kParameters = 1200;
constexpr int kSteps = 3;

struct Scales : torch::nn::Module {
  Scales() {
    for (int i = 0; i < kParameters; ++i) {
      all.push_back(register_parameter("scale" + std::to_string(i), torch::ones({1})));
    }
  }
  at::Tensor loss() const { return torch::cat(all).square().sum(); }
  std::vector<at::Tensor> all;
};

int average_each(const Place& place) {
  const auto net = std::make_shared<Scales>();
  Options options = quiet();
  options.level = "watch";
  attach_diagnostics(*net, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const Group group = place.group();
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    net->loss().backward();
    for (const at::Tensor& parameter : net->all) all_reduce(group, parameter.grad());
    optimizer.step();
  }
  return 0;
}
}  // namespace

TEST_CASE("Calls of more than a thousand gradients are all named after their parameters") {
  Ranks ranks(2, average_each);
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const RingLeft left = read_ring(ring_path(0));
  REQUIRE(left.calls.size() == kSteps * kParameters);
  int named = 0;
  for (std::size_t i = 0; i < left.calls.size(); ++i) {
    if (left.calls[i].owner == "scale" + std::to_string(i % kParameters) + ".grad") ++named;
  }
  CHECK(named == kSteps * kParameters);
}

}  // namespace ddpscope::test
