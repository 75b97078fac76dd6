// What ranks leave of the random numbers that they draw while they train.
#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
using Draw = std::function<at::Tensor(const at::Tensor&)>;

/// Every rank has the seed of all, and batches of its own that need no generator.
struct Loop {
  Draw before_forward = [](const at::Tensor& batch) { return batch; };
  Draw in_forward = [](const at::Tensor& hidden) { return hidden; };
  Draw on_gradient = [](const at::Tensor& gradient) { return gradient; };
  int seed_of_rank = 0;
};

int train_with(const Place& place, const Loop& loop) {
  const Group group = place.group();
  torch::manual_seed(1);
  Net net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  torch::manual_seed(7 + loop.seed_of_rank * place.rank);
  for (int step = 1; step <= 3; ++step) {
    optimizer.zero_grad();
    const at::Tensor own = torch::full({5, 8}, 0.1 * (step + 3 * place.rank));
    const at::Tensor hidden = net->first(loop.before_forward(own)).relu();
    net->second(loop.in_forward(hidden)).square().mean().backward();
    for (const at::Tensor& parameter : net->parameters()) {
      all_reduce(group, parameter.grad());
      parameter.grad().div_(place.ranks);
      parameter.mutable_grad() = loop.on_gradient(parameter.grad());
    }
    optimizer.step();
  }
  return 0;
}

std::vector<std::string> same_random_of(const Loop& loop) {
  Ranks ranks(2, [&](const Place& place) { return train_with(place, loop); });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  return same_random_in({ring_path(0), ring_path(1)});
}

at::Tensor add_noise(const at::Tensor& tensor) { return tensor + torch::randn_like(tensor); }
}  // namespace

TEST_CASE("Ranks leave the state before the first random numbers of a forward") {
  CHECK(same_random_of({.in_forward = add_noise}) ==
        std::vector<std::string>{"aten::randn_like 3"});
}

TEST_CASE("Random numbers of a mask that is filled in place are left, too") {
  const Draw drop = [](const at::Tensor& hidden) {
    return hidden * torch::empty_like(hidden).bernoulli_(0.5);
  };
  CHECK(same_random_of({.in_forward = drop}) == std::vector<std::string>{"aten::bernoulli_ 3"});
}

TEST_CASE("Ranks that draw other numbers, or none of a forward, have no state in common") {
  Loop loop;
  SECTION("of seeds of their own") { loop = {.in_forward = add_noise, .seed_of_rank = 1}; }
  SECTION("of data, before the forward") { loop = {.before_forward = add_noise}; }
  SECTION("of noise on averaged gradients") { loop = {.on_gradient = add_noise}; }
  SECTION("of a generator of the program's own") {
    loop = {.in_forward = [](const at::Tensor& hidden) {
      at::Generator own = at::make_generator<at::CPUGeneratorImpl>(3);
      return hidden + torch::empty_like(hidden).normal_(0, 1, own);
    }};
  }
  SECTION("of data of a second part") {
    loop = {.in_forward = [](const at::Tensor& hidden) {
      return hidden + torch::rand(hidden.sizes());
    }};
  }
  SECTION("of a permutation") {
    loop = {.in_forward = [](const at::Tensor& hidden) {
      return hidden.index_select(0, torch::randperm(hidden.size(0)));
    }};
  }
  CHECK(same_random_of(loop).empty());
}

}  // namespace ddpscope::test
