// Ranks that step parameters of their own each, and send them to each other afterwards.
#include <chrono>
#include <string>
#include <thread>

#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
constexpr std::chrono::milliseconds kPause(12);

/// The first rank takes long for its step; the other waits for it in the broadcast, or before the
/// first operator on the next batch.
std::string run(bool waits_for_data) {
  Ranks ranks(2, [=](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(3);
    Net net;
    attach_diagnostics(net, quiet());
    std::vector<at::Tensor> own;
    const auto parameters = net->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (i % 2 == static_cast<std::size_t>(place.rank)) own.push_back(parameters[i]);
    }
    torch::optim::SGD optimizer(own, 0.05);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 5);
    for (int step = 1; step <= 75; ++step) {
      if (waits_for_data) std::this_thread::sleep_for(kPause);
      net->zero_grad();
      net(torch::randn({4, 8})).square().mean().backward();
      for (const at::Tensor& parameter : parameters) {
        all_reduce(group, parameter.grad().div_(place.ranks));
      }
      if (place.rank == 0) std::this_thread::sleep_for(kPause);
      optimizer.step();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        broadcast(group, parameters[i].detach(), static_cast<int>(i % 2));
      }
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  std::string told;
  for (const std::string& line : records("finding")) told += line + "\n";
  return told;
}
}  // namespace

TEST_CASE("Who waits for the parameters of another rank does not wait for data") {
  const std::string told = run(/*waits_for_data=*/false);
  INFO(told);
  CHECK(told.find("data-loader-wait") == std::string::npos);
}

TEST_CASE("Who waits for data beside the parameters of another rank is told") {
  const std::string told = run(/*waits_for_data=*/true);
  INFO(told);
  CHECK(told.find("data-loader-wait") != std::string::npos);
}

}  // namespace ddpscope::test
