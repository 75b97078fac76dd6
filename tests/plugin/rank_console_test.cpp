// What ranks print that no launcher started.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
std::string said_by(int rank) {
  const std::ifstream file(report_dir() + ".said" + std::to_string(rank));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The optimizer of the ranks after the first leaves a layer out.
int train_all_but_one_layer(const Place& place) {
  const std::string said = report_dir() + ".said" + std::to_string(place.rank);
  if (std::freopen(said.c_str(), "w", stderr) == nullptr) return 1;
  const Group group = place.group();
  Options options = quiet();
  options.console = "brief";
  Net net;
  attach_diagnostics(net, options);
  torch::optim::SGD optimizer(place.rank == 0 ? net->parameters() : net->first->parameters(), 0.01);
  train(
      optimizer, [&] { return net->loss(); }, 8);
  findings();  // judged
  all_reduce(group, torch::ones({1}));
  return 0;
}
}  // namespace

TEST_CASE("Ranks whose run is named by hand have no launcher either") {
  setenv("DDPSCOPE_RUN_ID", "by-hand", 1);
  REQUIRE(Ranks(2, train_all_but_one_layer).exit_codes() == std::vector<int>{0, 0});
  CHECK(said_by(0).find("rank 0 of 2 alone; all ranks: ddpscope merge ") != std::string::npos);
  CHECK(said_by(1).find("[optim-missing-parameter]") != std::string::npos);
}

TEST_CASE("Ranks leave the verdict to their launcher") {
  setenv("DDPSCOPE_LAUNCHER", "run", 1);
  REQUIRE(Ranks(2, train_all_but_one_layer).exit_codes() == std::vector<int>{0, 0});
  CHECK(said_by(0).empty());
  CHECK(said_by(1).empty());
}

TEST_CASE("Without a launcher rank 0 ends with a verdict and one of those that fail speaks") {
  REQUIRE(Ranks(3, train_all_but_one_layer).exit_codes() == std::vector<int>{0, 0, 0});
  CHECK(said_by(0).find("rank 0 of 3 alone; all ranks: ddpscope merge ") != std::string::npos);
  CHECK(said_by(0).find("ddpscope: 0 errors,") != std::string::npos);
  const auto speaks = [](int rank) {
    return said_by(rank).find("[optim-missing-parameter]") != std::string::npos;
  };
  CHECK(speaks(1) != speaks(2));
  const std::string speaker = said_by(speaks(1) ? 1 : 2);
  CHECK(speaker.find("ddpscope: 1 error,") != std::string::npos);
  CHECK(speaker.find("\n\n") == std::string::npos);
  CHECK(said_by(speaks(1) ? 2 : 1).empty());
}

}  // namespace ddpscope::test
