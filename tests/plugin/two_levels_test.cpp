// Preloaded programs that average within a node first, then among the leaders of the nodes.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::two_levels_test {
namespace {
constexpr int kRanks = 3;
using Tensors = std::vector<at::Tensor>;

Group part(const Place& place, const std::string& name, int rank) {
  const auto store = c10::make_intrusive<c10d::PrefixStore>(name, place.store);
  return Place{.rank = rank, .ranks = 2, .store = store}.group();
}

struct How {
  bool by_reduce = false;     ///< within the node, not by messages
  bool is_scheduled = false;  ///< the learning rate falls with each step
};

/// Ranks 0 and 1 are a node, and rank 2 is one of its own.
struct Averaging {
  Averaging(const Place& place, const How& with) : rank(place.rank), how(with) {
    if (rank < 2) node = part(place, "node", rank);
    if (rank != 1) leaders = part(place, "leaders", rank / 2);
  }

  void to_leader(at::Tensor flat) const {
    Tensors own{flat};
    if (how.by_reduce) {
      node->reduce(own)->wait();
    } else if (rank == 1) {
      node->send(own, 0, 0)->wait();
    } else {
      Tensors other{torch::empty_like(flat)};
      node->recv(other, 1, 0)->wait();
      flat.add_(other[0]);
    }
  }

  void operator()(const Net& net) const {
    const torch::NoGradGuard no_grad;
    Tensors flat;
    for (const at::Tensor& parameter : net->parameters())
      flat.push_back(parameter.grad().flatten());
    const at::Tensor all = torch::cat(flat);
    if (node) to_leader(all);
    if (leaders) {
      all_reduce(leaders, all);
      all.div_(kRanks);
    }
    if (node) broadcast(node, all);
    std::int64_t at = 0;
    for (const at::Tensor& parameter : net->parameters()) {
      parameter.grad().copy_(all.narrow(0, at, parameter.numel()).view_as(parameter));
      at += parameter.numel();
    }
  }

  int rank;
  How how;
  Group node;
  Group leaders;
};

Merged merged_run(const How& how) {
  Ranks ranks(kRanks, [how](const Place& place) {
    const Averaging average(place, how);
    torch::manual_seed(1);
    Net net;
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    for (int step = 0; step < 30; ++step) {
      optimizer.zero_grad();
      net(torch::randn({4, 8})).square().mean().backward();
      average(net);
      auto& options = optimizer.param_groups()[0].options();
      if (how.is_scheduled) options.set_lr(0.01 / (1 + 0.1 * step));
      optimizer.step();
    }
    return 0;
  });
  CHECK(ranks.exit_codes() == std::vector<int>(kRanks, 0));
  return merge();
}
}  // namespace

TEST_CASE("Leaders that receive gradients and broadcast their mean are silent") {
  const Merged merged = merged_run({});
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("Leaders that gradients are reduced to are silent") {
  const Merged merged = merged_run({.by_reduce = true});
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("A learning rate that falls on two levels alike is silent") {
  const Merged merged = merged_run({.is_scheduled = true});
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

}  // namespace ddpscope::test::two_levels_test
