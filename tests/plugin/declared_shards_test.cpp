// Parameters of which each rank holds a part of its own, as it declares.
#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::declared_shards_test {
namespace {
struct TableImpl : torch::nn::Module {
  explicit TableImpl(std::int64_t rows)
      : table(register_module("table", torch::nn::Embedding(rows, 8))) {}
  torch::nn::Embedding table;
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 4));
};
TORCH_MODULE(Table);

/// The rows of a table are shared out over the ranks, and each looks up its own.
int train_on(const Place& place) {
  const Group group = place.group();
  const std::int64_t rows = 40 + place.rank;
  Table net(rows);
  attach_diagnostics(net, quiet()).declare("table*", Declaration::kSharded);
  for (const at::Tensor& parameter : net->head->parameters()) {
    broadcast(group, parameter.detach());
  }
  torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const at::Tensor found = net->table(torch::randint(0, rows, {16}));
    net->head(found).square().mean().backward();
    for (const at::Tensor& parameter : net->head->parameters()) {
      all_reduce(group, parameter.grad().div_(place.ranks));
    }
    optimizer.step();
  }
  return 0;
}
}  // namespace

TEST_CASE("Declared shards of other shapes are silent") {
  Ranks ranks(2, train_on);
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

}  // namespace ddpscope::test::declared_shards_test
