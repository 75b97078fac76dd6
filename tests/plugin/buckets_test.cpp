// What is a bucket of gradients and what is none.
#include <set>

#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::buckets_test {
namespace {
using Tensors = std::vector<at::Tensor>;

std::set<std::string> owners_of(int rank) {
  std::set<std::string> owners;
  for (const NotedCall& call : read_ring(ring_path(rank)).calls) owners.insert(call.owner);
  return owners;
}

/// Its gradient is summed up over the ranks, as of a layer that lies on all of them.
struct OnAllRanks : torch::autograd::Function<OnAllRanks> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x; }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors& gradients) {
    const at::Tensor sum = gradients[0].clone();
    all_reduce(*group, sum);
    return {sum};
  }
  static thread_local const Group* group;
};
thread_local const Group* OnAllRanks::group = nullptr;
}  // namespace

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
  const std::set<std::string> named = {"first.weight.grad", "first.bias.grad", "second.weight.grad",
                                       "second.bias.grad"};
  CHECK(owners_of(1) == named);
  std::set<std::string> at_rest = named;
  at_rest.insert("");
  CHECK(owners_of(0) == at_rest);
}

TEST_CASE("A gradient of activations that a function sums up is no bucket") {
  Ranks ranks(2, [](const Place& place) {
    const Group group = place.group();
    OnAllRanks::group = &group;
    torch::nn::Linear net(8, 8);
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      const at::Tensor x = torch::randn({9, 8}).requires_grad_();  // as many as the parameters
      net->forward(OnAllRanks::apply(x)).sum().backward();
      optimizer.step();
    }
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(owners_of(0) == std::set<std::string>{""});
}

}  // namespace ddpscope::test::buckets_test
