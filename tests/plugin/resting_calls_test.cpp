// What a rank notes of collectives while its hooks rest.
#include <set>

#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {

TEST_CASE("A gradient is not taken for a bucket while hooks rest") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    Net net;
    Options options = quiet();
    options.overhead = place.rank == 0 ? 0.1 : 1000;
    attach_diagnostics(net, options);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    for (int step = 0; step < 300; ++step) {
      optimizer.zero_grad();
      net->loss().backward();
      torch::NoGradGuard no_grad;
      for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
      optimizer.step();
    }
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const auto owners_of = [](int rank) {
    std::set<std::string> owners;
    for (const NotedCall& call : read_ring(ring_path(rank)).calls) owners.insert(call.owner);
    return owners;
  };
  const std::set<std::string> named = {"first.weight.grad", "first.bias.grad", "second.weight.grad",
                                       "second.bias.grad"};
  CHECK(owners_of(1) == named);
  std::set<std::string> at_rest = named;
  at_rest.insert("");
  CHECK(owners_of(0) == at_rest);
}

}  // namespace ddpscope::test
