// Parameters that begin to train when the averaging of the others is set up.
#include <nlohmann/json.hpp>

#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
struct Frozen : torch::nn::Module {
  Frozen() {
    register_module("trunk", trunk);
    register_module("head", head);
    trunk->weight.set_requires_grad(false);
    trunk->bias.set_requires_grad(false);
  }
  at::Tensor loss() { return head(torch::relu(trunk(torch::ones({4, 8})))).square().mean(); }

  torch::nn::Linear trunk{8, 16};
  torch::nn::Linear head{16, 16};
};

/// Averages the gradients of these as one buffer.
void average_flat(const Place& place, const Group& group, const std::vector<at::Tensor>& members) {
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& one : members) parts.push_back(one.grad().reshape(-1));
  at::Tensor flat = torch::cat(parts);
  all_reduce(group, flat);
  flat.div_(place.ranks);
  std::int64_t from = 0;
  for (const at::Tensor& one : members) {
    one.grad().copy_(flat.narrow(0, from, one.numel()).view_as(one));
    from += one.numel();
  }
}

/// The trunk is thawed in step 3, and averaged from then on or never.
int train(const Place& place, bool follows) {
  torch::manual_seed(1);
  const auto net = std::make_shared<Frozen>();
  attach_diagnostics(net, quiet());
  const Group group = place.group();
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  std::vector<at::Tensor> averaged = net->head->parameters();
  for (int step = 1; step <= 8; ++step) {
    if (step == 3) {
      for (const at::Tensor& one : net->trunk->parameters()) one.set_requires_grad(true);
      if (follows) averaged = net->parameters();
    }
    optimizer.zero_grad();
    net->loss().backward();
    average_flat(place, group, averaged);
    optimizer.step();
  }
  return 0;
}

std::vector<std::string> changes() {
  std::vector<std::string> found;
  for (const std::string& line : records("finding")) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("id") == "module-trainable-changed") {
      found.push_back(record.at("severity").get<std::string>() + ": " +
                      record.at("what").get<std::string>());
    }
  }
  return found;
}
}  // namespace

TEST_CASE("Thawed parameters are told where the buffer that is averaged leaves them out") {
  Ranks ranks(2, [](const Place& place) { return train(place, /*follows=*/false); });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(changes() == std::vector<std::string>{
                         "error: 2 parameters became trainable in step 3; 2 in no collective"});
}

TEST_CASE("Thawed parameters are a note where the buffer holds them as well") {
  Ranks ranks(2, [](const Place& place) { return train(place, /*follows=*/true); });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(changes() == std::vector<std::string>{
                         "note: 2 parameters became trainable in step 3; nothing leaves them out"});
}

}  // namespace ddpscope::test
