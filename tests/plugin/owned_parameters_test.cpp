// Ranks that step parameters of their own each, and send them to each other afterwards.
#include <chrono>
#include <string>
#include <thread>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::owned_parameters_test {
namespace {
constexpr std::chrono::milliseconds kPause(12);

/// The findings of all of them, once they have ended well.
std::string told_by(Ranks& ranks) {
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  std::string told;
  for (const std::string& line : records("finding")) told += line + "\n";
  return told;
}

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
  return told_by(ranks);
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

namespace {
/// Two ranks step every other parameter. Those in the middle come from the rank that steps them, or
/// from the other one.
std::string run_sending(bool from_other) {
  Ranks ranks(2, [=](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(3);
    Net net;
    attach_diagnostics(net, quiet());
    const auto parameters = net->parameters();
    REQUIRE(parameters.size() == 4);
    torch::optim::SGD optimizer({parameters[place.rank], parameters[place.rank + 2]}, 0.05);
    for (int step = 1; step <= 4; ++step) {
      net->zero_grad();
      net(input()).square().mean().backward();
      optimizer.step();
      for (int i = 0; i < 4; ++i) {
        broadcast(group, parameters[i].detach(), from_other ? i / 2 : i % 2);
      }
    }
    return 0;
  });
  return told_by(ranks);
}
}  // namespace

TEST_CASE("A rank that sends parameters which the other one steps is told") {
  const std::string told = run_sending(/*from_other=*/true);
  INFO(told);
  CHECK(told.find("what another rank steps of them is lost") != std::string::npos);
}

TEST_CASE("Ranks that send what they step themselves are not told so") {
  const std::string told = run_sending(/*from_other=*/false);
  INFO(told);
  CHECK(told.find("what another rank steps of them is lost") == std::string::npos);
}

namespace {
enum class Reduction { kToOwners, kOfSome, kToOthers, kTwice };

/// Each of two ranks steps every other parameter, to whose owner gradients are reduced.
Merged run_reducing(Reduction how) {
  Ranks ranks(2, [=](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(3);
    Net net;
    attach_diagnostics(net, quiet());
    const auto parameters = net->parameters();
    torch::optim::SGD optimizer({parameters[place.rank], parameters[place.rank + 2]}, 0.05);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 5);
    for (int step = 1; step <= 6; ++step) {
      net->zero_grad();
      net(torch::randn({4, 8})).square().mean().backward();
      const torch::NoGradGuard guard;
      for (int i = how == Reduction::kOfSome ? 1 : 0; i < 4; ++i) {
        std::vector<at::Tensor> tensors{parameters[i].grad()};
        const int owner = how == Reduction::kToOthers ? 1 - i % 2 : i % 2;
        group->reduce(tensors, {.rootRank = owner})->wait();
        tensors[0].div_(how == Reduction::kTwice ? 4 : 2);
      }
      optimizer.step();
      for (int i = 0; i < 4; ++i) broadcast(group, parameters[i].detach(), i % 2);
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("Means that reach the rank which steps them are no finding") {
  const Merged merged = run_reducing(Reduction::kToOwners);
  INFO(merged.said);
  CHECK_FALSE(merged.says("[grad-not-reduced]"));
  CHECK_FALSE(merged.says("[grad-reduced-wrong-scale]"));
}

TEST_CASE("A gradient that is not reduced to the rank which steps it is told") {
  const Merged merged = run_reducing(Reduction::kOfSome);
  INFO(merged.said);
  CHECK(merged.says("1 of 4 sampled gradients is stepped with what one of 2 ranks computed alone"));
}

TEST_CASE("Gradients that are reduced to another rank than the one that steps them are told") {
  const Merged merged = run_reducing(Reduction::kToOthers);
  INFO(merged.said);
  CHECK((merged.says("(not_linear)") || merged.says("computed alone (subset)")));
}

TEST_CASE("Means that are divided twice for the rank which steps them are told") {
  const Merged merged = run_reducing(Reduction::kTwice);
  INFO(merged.said);
  CHECK(merged.says("reduced gradients are 0.5 × the mean over 2 ranks (divided_twice)"));
}

}  // namespace ddpscope::test::owned_parameters_test
