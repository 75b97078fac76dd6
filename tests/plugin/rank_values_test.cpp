// What ranks leave of the values of their tensors, to be compared.
#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    line = register_module("line", torch::nn::Linear(8, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
  }
  torch::Tensor forward(const torch::Tensor& input) { return norm(line(input)); }
  torch::nn::Linear line{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Normed);

/// The batches of rank 1 lie elsewhere, and rank 0 evaluates.
int train_on_own_batches(const Place& place) {
  const Group group = place.group();
  torch::manual_seed(1);
  Normed net;
  Options options = quiet();
  options.level = "values";
  attach_diagnostics(net, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 1; step <= 4; ++step) {
    optimizer.zero_grad();
    net(torch::randn({16, 8}) + 5 * place.rank).pow(2).mean().backward();
    for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
    optimizer.step();
  }
  const torch::NoGradGuard no_grad;
  net->eval();
  if (place.rank == 0) net(torch::randn({2, 8}));
  return 0;
}
}  // namespace

TEST_CASE("Ranks leave how far their tensors lie apart, and which of them evaluated") {
  Ranks ranks(2, train_on_own_batches);
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const ValuesLeft left = compare_values_in({ring_path(0), ring_path(1)});
  CHECK(left.evaluated == std::vector<bool>{true, false});
  CHECK(left.path == "norm.running_mean");
  CHECK(left.step == 4);
  CHECK(left.relative > 0.1);
}

}  // namespace ddpscope::test
