// Preloaded programs whose ranks use a model and call each other in different order before they
// train.
#include <filesystem>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
void average(const Group& group, const Net& net, const Place& place) {
  for (const at::Tensor& parameter : net->parameters()) {
    all_reduce(group, parameter.grad().div_(place.ranks));
  }
}
}  // namespace

TEST_CASE("A barrier that one rank reaches after a save and others at once is one call") {
  const std::string file = report_dir() + ".pt";
  Ranks ranks(2, [file](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    if (place.rank == 0) torch::save(net, file);
    group->barrier()->wait();
    if (place.rank == 1) torch::load(net, file);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    for (int step = 0; step < 8; ++step) {
      optimizer.zero_grad();
      net(torch::randn({4, 8})).square().mean().backward();
      average(group, net, place);
      optimizer.step();
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  std::filesystem::remove(file);
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
  for (int rank : {0, 1}) CHECK(read_ring(ring_path(rank)).calls.at(0).kind == "barrier");
}

}  // namespace ddpscope::test
