// What ranks begin with as equal replicas, and what makes them differ from there on.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::replica_starts_test {
namespace {
constexpr int kSteps = 24;

/// Follows the mean of its inputs, and subtracts it before the first layer reads them.
struct CenteredImpl : torch::nn::Module {
  explicit CenteredImpl(const at::Tensor& start) {
    center = register_buffer("center", start);
    line = register_module("line", torch::nn::Linear(8, 4));
  }
  at::Tensor forward(const at::Tensor& input) {
    if (follows) {
      const torch::NoGradGuard no_grad;
      center.lerp_(input.mean(0), 0.1);
    }
    return line(input - center);
  }
  bool follows = true;
  at::Tensor center;
  torch::nn::Linear line{nullptr};
};
TORCH_MODULE(Centered);

void train(const Place& place, const Group& group, int ranks, Centered net,
           torch::optim::Optimizer& optimizer) {
  torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);  // data of its own
  for (int step = 1; step <= kSteps; ++step) {
    optimizer.zero_grad();
    (net(torch::randn({16, 8})) - 1).square().mean().backward();
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& parameter : net->parameters()) {
      all_reduce(group, parameter.grad());
      parameter.grad().div_(ranks);
    }
    optimizer.step();
  }
}

void train(const Place& place, const Group& group, int ranks, const Centered& net) {
  torch::optim::SGD optimizer(net->parameters(), 0.02);
  train(place, group, ranks, net, optimizer);
}

/// The buffers that another run left of it.
void load_ones(const Centered& net) {
  const Centered other(torch::ones({8}));
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < net->parameters().size(); ++i) {
    other->parameters()[i].copy_(net->parameters()[i]);
  }
  std::stringstream archive;
  torch::save(other, archive);
  Centered loaded = net;
  torch::load(loaded, archive);
}

struct Start {
  bool is_drawn = false;  ///< by each rank for itself
  bool is_set = false;    ///< by one rank, once all have attached
  int loaded_from = 2;    ///< the first rank that reads an archive then
  bool follows = true;
};

Merged run(const Start& start) {
  const auto program = [start](const Place& place) {
    torch::manual_seed(1);
    Centered net(torch::zeros({8}));
    net->follows = start.follows;
    if (start.is_drawn) net->center.fill_(place.rank);
    attach_diagnostics(net, quiet());
    if (start.is_set && place.rank == 1) net->center.fill_(1);
    if (place.rank >= start.loaded_from) load_ones(net);
    train(place, place.group(), place.ranks, net);
    return 0;
  };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  return merge();
}

/// Ranks go on with what a run before left of their optimizer, or one of them `alone`; rank 0 lists
/// the parameters the other way round.
int go_on(const Place& place, bool alone) {
  torch::manual_seed(1);
  Centered net(torch::zeros({8}));
  net->follows = false;
  std::vector<at::Tensor> listed = net->parameters();
  if (place.rank == 0 && !alone) std::ranges::reverse(listed);
  torch::optim::Adam optimizer(listed, 0.01);
  if (place.rank == 0 || !alone) {
    for (const at::Tensor& parameter : net->parameters()) {
      auto state = std::make_unique<torch::optim::AdamParamState>();
      state->step(100);
      state->exp_avg(torch::full_like(parameter, 0.1));
      state->exp_avg_sq(torch::full_like(parameter, 0.01));
      optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
  }
  attach_diagnostics(net, quiet());
  train(place, place.group(), place.ranks, net, optimizer);
  return 0;
}

/// Pairs of ranks share the name `pair` and average by themselves.
int train_in_pairs(const Place& place) {
  torch::manual_seed(static_cast<std::uint64_t>(place.rank));
  Centered net(torch::zeros({8}));
  net->follows = false;
  attach_diagnostics(net, quiet());
  const Group all = place.group();
  for (const at::Tensor& parameter : net->parameters()) broadcast(all, parameter.detach());
  Place pair = place;
  pair.rank = place.rank % 2;
  pair.ranks = 2;
  pair.store =
      c10::make_intrusive<c10d::PrefixStore>("pair" + std::to_string(place.rank / 2), place.store);
  train(place, pair.group(), pair.ranks, net);
  return 0;
}
}  // namespace

TEST_CASE("A buffer that forward writes before a layer reads it drifts from the first step on") {
  Start start;
  SECTION("of a new model") { start = {}; }
  SECTION("of one that all ranks loaded") { start = {.loaded_from = 0}; }
  const Merged merged = run(start);
  INFO(merged.said);
  CHECK(merged.says("ranks 0-1 step 1 "));
  CHECK(merged.says("warning: 1 of 1 buffer differs between ranks at the end of step 1 (drift), "));
}

TEST_CASE("A buffer that a rank begins with alone is found, whatever forward makes of it") {
  Start start;
  SECTION("drawn by each rank") { start = {.is_drawn = true}; }
  SECTION("loaded by one rank later") { start = {.loaded_from = 1}; }
  SECTION("set by one rank later, and kept") { start = {.is_set = true, .follows = false}; }
  const Merged merged = run(start);
  INFO(merged.said);
  CHECK(
      merged.says("error: 1 of 1 buffer differs between ranks before training (init_not_synced)"));
}

TEST_CASE("A state of the optimizer that one rank loaded is why parameters drift") {
  const auto program = [](const Place& place) { return go_on(place, /*alone=*/true); };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("error: state at the first step: none on rank 1, 2 members (fingerprint "));
  CHECK(merged.says(") on rank 0, since step 1 [rank-optimizer-differs]"));
  CHECK(merged.says("led to: ranks 0-1 step 2 line: error: 2 of 2 parameters differ"));
}

TEST_CASE("One state of optimizers that list their parameters in another order is silent") {
  const auto program = [](const Place& place) { return go_on(place, /*alone=*/false); };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("Replicas that average in pairs alone are a note") {
  CHECK(Ranks(4, train_in_pairs).exit_codes() == std::vector<int>{0, 0, 0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
  CHECK(merged.says("note: 2 of 2 sampled gradients differ between ranks at step() (split)"));
}

}  // namespace ddpscope::test::replica_starts_test
