// Collectives that no other rank takes part in.
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
/// Each of these ranks is the only one of its group.
Place alone(const Place& place) {
  const std::string own = "rank" + std::to_string(place.rank);
  return {.rank = 0, .ranks = 1, .store = c10::make_intrusive<c10d::PrefixStore>(own, place.store)};
}

int step_with_sums(const Place& place) {
  Net net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const Group group = place.group();
  net->loss().backward();
  for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
  optimizer.step();
  return 0;
}

bool averages_at_end() {
  const auto last = nlohmann::json::parse(records("digest").back());
  return last.at("averages").get<bool>();
}
}  // namespace

TEST_CASE("Sums of gradients over a group of one rank are no average") {
  Ranks ranks(2, [](const Place& place) { return step_with_sums(alone(place)); });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK_FALSE(averages_at_end());
}

TEST_CASE("Sums of gradients over all ranks are an average") {
  Ranks ranks(2, step_with_sums);
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(averages_at_end());
}

}  // namespace ddpscope::test
