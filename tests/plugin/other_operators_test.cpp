// Ranks that average gradients and make them in other ways.
#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::other_operators_test {
namespace {
enum class Mistake { kNone, kActivation, kMode };

struct DroppingImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input, bool is_other) {
    const at::Tensor hidden = first(input);
    return second(drop(is_other ? hidden.tanh() : hidden.relu()));
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 16));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(16, 4));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.1));
};
TORCH_MODULE(Dropping);

/// Rank 0 also looks at its outputs, beside the loss, and evaluates now and then.
Merged run(Mistake mistake) {
  Ranks ranks(2, [=](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(3);
    Dropping net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.05);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 5);
    const bool is_odd = place.rank == 1;
    for (int step = 1; step <= 68; ++step) {
      net->train(!(is_odd && mistake == Mistake::kMode));
      optimizer.zero_grad();
      const at::Tensor output =
          net(torch::randn({4, 8}), is_odd && mistake == Mistake::kActivation);
      if (!is_odd) (void)(output - 1).abs().mean().mul(100);
      output.square().mean().backward();
      for (const at::Tensor& parameter : net->parameters()) {
        all_reduce(group, parameter.mutable_grad().div_(place.ranks));
      }
      optimizer.step();
      if (is_odd || step % 4 != 0) continue;
      const torch::NoGradGuard guard;
      net->eval();
      (void)net(torch::randn({4, 8}), false).exp();
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("Ranks that train alike beside what one of them looks at are silent") {
  const Merged merged = run(Mistake::kNone);
  INFO(merged.said);
  CHECK_FALSE(merged.says("[rank-model-differs]"));
  CHECK_FALSE(merged.says("[module-mode]"));
}

TEST_CASE("An activation of one rank alone is noted") {
  const Merged merged = run(Mistake::kActivation);
  INFO(merged.said);
  CHECK(merged.says("aten::tanh on rank 1 alone"));
  CHECK(merged.says("[rank-model-differs]"));
}

TEST_CASE("Layers that one rank alone trains in eval mode are told") {
  const Merged merged = run(Mistake::kMode);
  INFO(merged.said);
  CHECK(merged.says("1 layer (drop the first) is in eval mode on rank 1"));
  CHECK_FALSE(merged.says("[rank-model-differs]"));
}

}  // namespace ddpscope::test::other_operators_test
