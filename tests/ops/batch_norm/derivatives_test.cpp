#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::derivatives_test {
namespace {
using Tensors = std::vector<at::Tensor>;
using torch::autograd::grad;

/// What one rank reads, in Double: x, dy, weight, bias, and v, a, b, which weigh the gradients.
/// Weight and bias are the same tensors on every rank.
struct RankTensors {
  Tensors all;
  const at::Tensor& x() const { return all[0]; }
  const at::Tensor& dy() const { return all[1]; }
  const at::Tensor& weight() const { return all[2]; }
  const at::Tensor& bias() const { return all[3]; }
};

std::vector<RankTensors> make_ranks(const std::vector<std::int64_t>& samples) {
  std::vector<RankTensors> ranks;
  const auto numbers = [](std::vector<std::int64_t> sizes) {
    return torch::randn(sizes, at::kDouble);
  };
  const at::Tensor weight = numbers({2}), bias = numbers({2});
  for (const std::int64_t count : samples) {
    ranks.push_back({{numbers({count, 2, 3}), numbers({count, 2, 3}), weight, bias,
                      numbers({count, 2, 3}), numbers({2}), numbers({2})}});
  }
  return ranks;
}

at::Tensor forward(const RankTensors& rank, const CommunicatorPtr& group, bool training) {
  return sync_batch_norm(rank.x(), training ? at::Tensor() : torch::zeros({2}, at::kDouble) + 0.3,
                         training ? at::Tensor() : torch::ones({2}, at::kDouble) * 1.7,
                         SyncBatchNormFuncOptions()
                             .weight(rank.weight())
                             .bias(rank.bias())
                             .training(training)
                             .communicator(group));
}

RankTensors leaves_of(const RankTensors& rank) {
  RankTensors leaves;
  for (const at::Tensor& tensor : rank.all) {
    leaves.all.push_back(tensor.detach().clone().requires_grad_());
  }
  return leaves;
}

/// The share of a rank in sum(y * dy), and its gradients by x, dy, weight and bias.
struct Share {
  double value = 0;
  Tensors gradients;
};

Share first_order(const RankTensors& rank, const CommunicatorPtr& group, bool training) {
  const RankTensors leaves = leaves_of(rank);
  const at::Tensor loss = (forward(leaves, group, training) * leaves.dy()).sum();
  return {loss.item<double>(),
          grad({loss}, {leaves.x(), leaves.dy(), leaves.weight(), leaves.bias()})};
}

/// Of the first gradients, weighed by v, a and b; bias has no second one.
Share second_order(const RankTensors& rank, const CommunicatorPtr& group, bool training) {
  const RankTensors leaves = leaves_of(rank);
  const at::Tensor y = forward(leaves, group, training);
  const auto first = grad({y}, {leaves.x(), leaves.weight(), leaves.bias()}, {leaves.dy()}, true,
                          /*create_graph=*/true);
  const at::Tensor loss = (first[0] * rank.all[4]).sum() + (first[1] * rank.all[5]).sum() +
                          (first[2] * rank.all[6]).sum();
  return {loss.item<double>(), grad({loss}, {leaves.x(), leaves.dy(), leaves.weight()})};
}

using Order = Share (*)(const RankTensors&, const CommunicatorPtr&, bool);

double total_of(Order order, const std::vector<RankTensors>& ranks, bool training) {
  double total = 0;
  for (const Share& share :
       on_ranks(static_cast<int>(ranks.size()), [&](int rank, const CommunicatorPtr&group) {
         return order(ranks[static_cast<std::size_t>(rank)], group, training);
       })) {
    total += share.value;
  }
  return total;
}

constexpr std::size_t kShared = 2;  // x and dy are of a rank, what follows is of all

/// The largest difference between `gradient` and the central difference of the sum over ranks.
double difference_of(const at::Tensor& gradient, at::Tensor numbers,
                     const std::function<double()>& total) {
  constexpr double kStep = 1e-5;
  double worst = 0;
  for (std::int64_t k = 0; k < numbers.numel(); ++k) {
    const double at = numbers[k].item<double>();
    numbers[k] = at + kStep;
    const double above = total();
    numbers[k] = at - kStep;
    const double below = total();
    numbers[k] = at;
    const double slope = (above - below) / (2 * kStep);
    const double found = gradient.view(-1)[k].item<double>();
    worst = std::max(worst, std::abs(found - slope) / std::max(1.0, std::abs(slope)));
  }
  return worst;
}

double worst_difference(Order order, const std::vector<RankTensors>& ranks, bool training) {
  auto shares =
      on_ranks(static_cast<int>(ranks.size()), [&](int rank, const CommunicatorPtr& group) {
        return order(ranks[static_cast<std::size_t>(rank)], group, training);
      });
  const auto total = [&] { return total_of(order, ranks, training); };
  double worst = 0;
  for (std::size_t i = 0; i < shares[0].gradients.size(); ++i) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const bool sums = i >= kShared && rank + 1 < ranks.size();
      if (sums) {
        shares[rank + 1].gradients[i] += shares[rank].gradients[i];
        continue;
      }
      const at::Tensor numbers = ranks[rank].all[i].view(-1);
      worst = std::max(worst, difference_of(shares[rank].gradients[i], numbers, total));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("gradients equal central differences over unequal ranks", "[norm]") {
  torch::manual_seed(1);
  const auto order = GENERATE(0, 1);
  const auto training = GENERATE(true, false);
  const auto ranks = make_ranks({2, 3});
  CHECK(worst_difference(order == 0 ? first_order : second_order, ranks, training) < 3e-8);
}

TEST_CASE("second derivatives of float equal those of double", "[norm]") {
  torch::manual_seed(2);
  const auto samples =
      GENERATE(std::vector<std::int64_t>{4, 1, 7}, std::vector<std::int64_t>{5, 0});
  const auto ranks = make_ranks(samples);
  auto single = ranks;
  for (RankTensors& rank : single) {
    for (at::Tensor& tensor : rank.all) tensor = tensor.to(at::kFloat);
  }
  const auto run = [&](const std::vector<RankTensors>& all) {
    return on_ranks(static_cast<int>(all.size()), [&](int rank, const CommunicatorPtr& group) {
      return second_order(all[static_cast<std::size_t>(rank)], group, true);
    });
  };
  const auto found = run(single), expected = run(ranks);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(found[rank].gradients[i].scalar_type() == at::kFloat);
      CHECK(error_of(found[rank].gradients[i], expected[rank].gradients[i]) < 1e-4);
    }
  }
}

TEST_CASE("a third derivative is refused", "[norm]") {
  const auto x = torch::randn({4, 2}, at::kDouble).requires_grad_();
  const auto y = sync_batch_norm(x, {}, {}, SyncBatchNormFuncOptions().training(true));
  const auto first = grad({y.pow(3).sum()}, {x}, {}, true, true)[0];
  const auto second = grad({first.pow(2).sum()}, {x}, {}, true, true)[0];
  CHECK_THROWS_WITH(grad({second.pow(2).sum()}, {x}),
                    Catch::Matchers::Contains("can be differentiated twice, not three times"));
}

TEST_CASE("a rank that needs no gradient of its input still exchanges", "[norm]") {
  torch::manual_seed(3);
  auto norm = make_case({.samples = {3, 3}});
  const auto expected = run_case(norm);
  const auto frozen = GENERATE(0, 1);
  const auto found = on_ranks(2, [&](int rank, const CommunicatorPtr& group) {
    const auto index = static_cast<std::size_t>(rank);
    const auto x = norm.inputs[index].detach().requires_grad_(rank == 0 || frozen == 1);
    const auto weight = norm.weight.clone().requires_grad_(rank == 0 || frozen == 0);
    const auto y = sync_batch_norm(
        x, {}, {},
        SyncBatchNormFuncOptions().weight(weight).bias(norm.bias).training(true).communicator(
            group));
    y.backward(norm.gradients[index]);
    return Tensors{x.grad(), weight.grad()};
  });
  CHECK(same_bits(found[0][0], expected[0].dx));
  CHECK(same_bits(found[0][1], expected[0].dweight));
  CHECK(found[1][0].defined() == (frozen == 1));
  CHECK(found[1][1].defined() == (frozen == 0));
}

TEST_CASE("a copy because of strides is part of the graph, twice", "[norm]") {
  torch::manual_seed(4);
  const auto base = torch::randn({4, 3, 5}, at::kDouble).requires_grad_();
  const auto run = [&](const at::Tensor& x) {
    const auto y = sync_batch_norm(x, {}, {}, SyncBatchNormFuncOptions().training(true));
    const auto first = grad({y.pow(3).sum()}, {base}, {}, true, true)[0];
    return grad({first.pow(2).sum()}, {base})[0];
  };
  CHECK(error_of(run(base.slice(2, 0, 5, 2)), run(base.slice(2, 0, 5, 2).contiguous())) < 1e-12);
}

TEST_CASE("nothing is saved without a graph", "[norm]") {
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({4, 3}).requires_grad_();
  const auto y = sync_batch_norm(x, {}, {}, SyncBatchNormFuncOptions().training(true));
  CHECK(!y.requires_grad());
  CHECK(x.use_count() == 1);
}

}  // namespace ddpscope::test::derivatives_test
