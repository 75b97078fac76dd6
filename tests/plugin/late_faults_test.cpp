// Faults that begin late in a run, where hooks rest in most steps.
#include <algorithm>
#include <functional>
#include <memory>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::late_faults_test {
namespace {
constexpr int kSteps = 140;  // hooks rest from the 64th on

/// What a program holds, and may change between its steps.
struct Loop {
  const Place& place;
  const Group& group;
  Net& net;
  std::unique_ptr<torch::optim::SGD> optimizer;
  int step = 0;  ///< that is about to begin
  bool averages = true;

  void set_rate(double rate) const {
    for (auto& group : optimizer->param_groups()) {
      static_cast<torch::optim::SGDOptions&>(group.options()).lr(rate);
    }
  }
};
using Change = std::function<void(Loop&)>;

/// On which ranks hooks rest.
enum class Rests { kAll, kLast };

int train_on(const Place& place, const Change& before_step, int steps, Rests rests) {
  const Group group = place.group();
  torch::manual_seed(1);
  Net net;
  Options options = quiet();
  // Of a step of so few operators: no other cycle is watched.
  options.overhead = rests == Rests::kAll || place.rank > 0 ? 0.01 : 100;
  attach_diagnostics(net, options);
  torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
  Loop loop{.place = place, .group = group, .net = net};
  loop.optimizer = std::make_unique<torch::optim::SGD>(net->parameters(), 0.01);
  for (loop.step = 1; loop.step <= steps; ++loop.step) {
    before_step(loop);
    loop.optimizer->zero_grad();
    net(torch::randn({4, 8})).square().mean().backward();
    for (const at::Tensor& parameter : net->parameters()) {
      if (loop.averages) all_reduce(group, parameter.grad().div_(place.ranks));
    }
    loop.optimizer->step();
  }
  return 0;
}

Merged merged_after(const Change& before_step, int steps = kSteps, Rests rests = Rests::kAll) {
  Ranks ranks(2, [&](const Place& place) { return train_on(place, before_step, steps, rests); });
  CHECK(ranks.exit_codes() == std::vector<int>{0, 0});
  return merge();
}

/// Hooks rest on one rank and watch the other.
Merged merged_beside_watched(const Change& before_step) {
  return merged_after(before_step, kSteps, Rests::kLast);
}

void change_on_one(Loop& loop, int step) {
  const torch::NoGradGuard guard;
  if (loop.place.rank == 1 && loop.step == step) loop.net->second->weight.mul_(0.9);
}
}  // namespace

TEST_CASE("Averages that end while hooks rest are missed at once") {
  const Merged merged =
      merged_after([](Loop& loop) { loop.averages = loop.step <= kSteps; }, kSteps + 20);
  INFO(merged.said);
  CHECK(merged.says("ranks 0-1 step 144 "));
  CHECK(merged.says("(none_seen) [grad-not-reduced]"));
}

TEST_CASE("A rate that one rank changes while hooks rest is told at its first step") {
  const Merged merged = merged_after([](Loop& loop) {
    if (loop.place.rank == 1 && loop.step == 101) loop.set_rate(0.001);
  });
  INFO(merged.said);
  CHECK(merged.says("learning rate 0.001 on rank 1, 0.01 on rank 0, since step 101 "));
  CHECK(merged.says("[rank-optimizer-differs]"));
}

TEST_CASE("An option that one rank changes while hooks rest is told at its first step") {
  const Merged merged = merged_after([](Loop& loop) {
    if (loop.place.rank != 1 || loop.step != 101) return;
    auto& options = loop.optimizer->param_groups()[0].options();
    static_cast<torch::optim::SGDOptions&>(options).weight_decay(0.1);
  });
  INFO(merged.said);
  CHECK(merged.says("weight decay 0.1 on rank 1, 0 on rank 0, since step 101 "));
}

TEST_CASE("Rates that all ranks schedule in each step are silent while hooks rest") {
  const Merged merged = merged_beside_watched([](Loop& loop) { loop.set_rate(0.01 / loop.step); });
  INFO(merged.said);
  CHECK(merged.code == 0);
  CHECK_FALSE(merged.says("rank-optimizer-differs"));
}

TEST_CASE("Optimizers that all ranks build anew while hooks rest are silent") {
  const Merged merged = merged_beside_watched([](Loop& loop) {
    if (loop.step % 25 != 0) return;
    loop.optimizer = std::make_unique<torch::optim::SGD>(loop.net->parameters(), 0.1 / loop.step);
  });
  INFO(merged.said);
  CHECK(merged.code == 0);
  CHECK_FALSE(merged.says("rank-optimizer-differs"));
}

TEST_CASE("A group that all ranks add while hooks rest is silent") {
  const Merged merged = merged_beside_watched([](Loop& loop) {
    if (loop.step == 1) {
      loop.optimizer =
          std::make_unique<torch::optim::SGD>(loop.net->first->parameters(), /*lr=*/0.01);
    }
    if (loop.step != 100) return;
    auto options = std::make_unique<torch::optim::SGDOptions>(0.02);
    loop.optimizer->add_param_group(
        torch::optim::OptimizerParamGroup(loop.net->second->parameters(), std::move(options)));
  });
  INFO(merged.said);
  CHECK_FALSE(merged.says("rank-optimizer-differs"));
}

TEST_CASE("A layer that all ranks replace while hooks rest on one of them is silent") {
  torch::nn::Linear old = nullptr;  // lives on
  const Merged merged = merged_beside_watched([&old](Loop& loop) {
    if (loop.step != 100) return;
    old = loop.net->second;
    loop.net->second = loop.net->replace_module("second", torch::nn::Linear(16, 4));
    const torch::NoGradGuard guard;
    for (const at::Tensor& parameter : loop.net->parameters()) broadcast(loop.group, parameter);
    loop.optimizer = std::make_unique<torch::optim::SGD>(loop.net->parameters(), 0.01);
  });
  INFO(merged.said);
  CHECK_FALSE(merged.says("[rank-"));
}

TEST_CASE("A parameter that one rank changes while hooks rest is told a few steps later") {
  const Merged merged = merged_after([](Loop& loop) { change_on_one(loop, 86); });
  INFO(merged.said);
  CHECK(merged.says("when step 88 began and were equal when step 84 began"));
  CHECK(merged.says("[rank-parameters-differ]"));
}

TEST_CASE("A parameter that one rank changes near the end is told") {
  const Merged merged = merged_after([](Loop& loop) { change_on_one(loop, kSteps - 2); });
  INFO(merged.said);
  CHECK(merged.says("when step 140 began and were equal when step 136 began"));
  CHECK(merged.says("[rank-parameters-differ]"));
}

}  // namespace ddpscope::test::late_faults_test
