// Shows what synchronized batch norm computes: a small convolutional network trains on several
// processes that share each batch and average their gradients by hand. One process alone trains it
// on whole batches, too. With ddpscope's batch norm both are the same network, to rounding; with
// torch's, which sees the own share alone, they part.
#include <ddpscope/ops.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "samples/support/arguments.h"
#include "samples/support/process_group.h"

namespace sync_norm {

constexpr std::int64_t kSamplesPerRank = 4;
constexpr std::int64_t kKinds = 3;

torch::nn::Sequential make_net() {
  using torch::nn::Conv2dOptions;
  torch::manual_seed(7);  // the same first weights everywhere
  return torch::nn::Sequential(
      torch::nn::Conv2d(Conv2dOptions(1, 8, 3).padding(1).bias(false)), torch::nn::BatchNorm2d(8),
      torch::nn::ReLU(), torch::nn::Conv2d(Conv2dOptions(8, 16, 3).stride(2).bias(false)),
      torch::nn::BatchNorm2d(16), torch::nn::ReLU(), torch::nn::AdaptiveAvgPool2d(1),
      torch::nn::Flatten(), torch::nn::Linear(16, kKinds));
}

struct Batch {
  torch::Tensor images;
  torch::Tensor kinds;
};

/// Of all ranks together. Each kind has a brightness of its own, and samples stand in the order of
/// their kind: no rank sees all of them.
Batch make_batch(std::int64_t step, const samples::World& world) {
  torch::manual_seed(static_cast<std::uint64_t>(1000 + step));
  const auto kinds =
      std::get<0>(torch::randint(kKinds, {kSamplesPerRank * world.size}, torch::kLong).sort());
  const auto noise = torch::randn({kinds.size(0), 1, 12, 12});
  return {noise + kinds.view({-1, 1, 1, 1}), kinds};
}

Batch share_of(const Batch& batch, const samples::World& world) {
  const std::int64_t begin = kSamplesPerRank * world.rank;
  return {batch.images.narrow(0, begin, kSamplesPerRank),
          batch.kinds.narrow(0, begin, kSamplesPerRank)};
}

class Trainer {
 public:
  Trainer(torch::nn::Sequential net, samples::Group group)
      : net_(std::move(net)), group_(std::move(group)), optimizer_(net_->parameters(), 0.1) {}

  void step(const Batch& batch) {
    optimizer_.zero_grad();
    torch::cross_entropy_loss(net_->forward(batch.images), batch.kinds).backward();
    if (group_) {
      for (const auto& parameter : net_->parameters()) {
        samples::add_over_ranks(group_, parameter.grad());
        parameter.grad().div_(group_->getSize());
      }
    }
    optimizer_.step();
  }

  std::vector<torch::Tensor> state() const {
    std::vector<torch::Tensor> state = net_->parameters();
    for (const auto& buffer : net_->buffers()) state.push_back(buffer);
    return state;
  }

 private:
  torch::nn::Sequential net_;
  samples::Group group_;
  torch::optim::SGD optimizer_;
};

double largest_difference(const Trainer& a, const Trainer& b) {
  const auto of_a = a.state(), of_b = b.state();
  double largest = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    largest = std::max(largest, (of_a[i] - of_b[i]).abs().max().item<double>());
  }
  return largest;
}

void compare(std::int64_t steps, const samples::World& world) {
  const samples::Group group = samples::connect(world);
  auto synchronized = make_net();
  const auto report = ddpscope::convert_sync_batch_norm(
      *synchronized, group ? ddpscope::make_communicator(group) : nullptr);
  Trainer shared(synchronized, group), local(make_net(), group), alone(make_net(), {});
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = make_batch(step, world);
    shared.step(share_of(batch, world));
    local.step(share_of(batch, world));
    alone.step(batch);
  }
  if (world.rank != 0) return;
  std::printf("%d of %d batch norms converted\n", static_cast<int>(report.converted.size()),
              static_cast<int>(report.converted.size() + report.not_converted.size()));
  std::printf("after %d steps on %d ranks, largest difference to one process:\n",
              static_cast<int>(steps), world.size);
  std::printf("  synchronized batch norm %.2e\n", largest_difference(shared, alone));
  std::printf("  local batch norm        %.2e\n", largest_difference(local, alone));
}

}  // namespace sync_norm

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, {}, {.steps = 20});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  sync_norm::compare(arguments.steps, samples::world_from_environment());
  return 0;
} catch (const std::exception& error) {
  std::cerr << "sync_norm: " << error.what() << "\n";
  return 2;
}
