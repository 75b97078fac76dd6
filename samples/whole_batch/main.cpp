// A convolutional network with batch norms, on several processes that share each batch and average
// their gradients by hand. It knows nothing of ddpscope. Its batch norms see the own share alone,
// so it trains another network than one process on whole batches does:
//
//   whole_batch_plain --dump one.pt
//   ddpscope run --nproc 2 -- whole_batch_plain --model one.pt
//   DDPSCOPE=sync_batch_norm=1 ddpscope run --nproc 2 -- whole_batch_plain --model one.pt
//
// The last one trains the same network, to rounding; with `--device cuda` on a GPU.
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "samples/support/arguments.h"
#include "samples/support/process_group.h"

namespace whole_batch {

constexpr std::int64_t kSamples = 12;
constexpr std::int64_t kKinds = 3;
constexpr std::int64_t kChannels = 8;

struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d conv1 = register_module("conv1", make_conv(1));
  torch::nn::BatchNorm2d norm1 = register_module("norm1", torch::nn::BatchNorm2d(kChannels));
  torch::nn::Conv2d conv2 = register_module("conv2", make_conv(kChannels));
  torch::nn::BatchNorm2d norm2 = register_module("norm2", torch::nn::BatchNorm2d(kChannels));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kChannels, kKinds));

  static torch::nn::Conv2d make_conv(std::int64_t channels) {
    return torch::nn::Conv2d(
        torch::nn::Conv2dOptions(channels, kChannels, 3).padding(1).bias(false));
  }

  torch::Tensor forward(torch::Tensor x, bool swapped) {
    auto &first = swapped ? norm2 : norm1, &second = swapped ? norm1 : norm2;
    x = torch::relu(first->forward(conv1->forward(x)));
    x = torch::relu(second->forward(conv2->forward(x)));
    return head->forward(x.mean({2, 3}));
  }
};
TORCH_MODULE(Net);

struct Batch {
  torch::Tensor images;
  torch::Tensor kinds;
};

/// This rank's share. Each kind has a brightness of its own, and samples stand in the order of
/// their kind: no rank of several sees all of them.
Batch make_batch(std::int64_t step, const samples::World& world, const torch::Device& device) {
  torch::manual_seed(static_cast<std::uint64_t>(1000 + step));
  const auto kinds = std::get<0>(torch::randint(kKinds, {kSamples}, torch::kLong).sort());
  const auto images = torch::randn({kSamples, 1, 12, 12}) + kinds.view({-1, 1, 1, 1});
  const std::int64_t share = kSamples / world.size;
  return {images.narrow(0, share * world.rank, share).to(device),
          kinds.narrow(0, share * world.rank, share).to(device)};
}

void train(Net& net, const samples::World& world, const samples::Arguments& arguments) {
  const samples::Group group = samples::connect(world);
  const torch::Device device(arguments.device);
  net->to(device);
  if (group) {
    for (auto& parameter : net->parameters()) samples::broadcast(group, parameter.detach());
  }
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (std::int64_t step = 1; step <= arguments.steps; ++step) {
    const Batch batch = make_batch(step, world, device);
    bool swapped = false;
    if (arguments.has("swapped-norms") && world.rank == 1 && step == 3) swapped = true;  // BUG
    optimizer.zero_grad();
    torch::cross_entropy_loss(net->forward(batch.images, swapped), batch.kinds).backward();
    if (group) {
      for (const auto& parameter : net->parameters()) {
        samples::add_over_ranks(group, parameter.grad());
        parameter.grad().div_(world.size);
      }
    }
    optimizer.step();
  }
}

std::vector<torch::Tensor> state_of(const Net& net) {
  std::vector<torch::Tensor> state;
  for (const auto& parameter : net->parameters()) state.push_back(parameter.detach().cpu());
  for (const auto& buffer : net->buffers()) state.push_back(buffer.cpu());
  return state;
}

void compare(const std::vector<torch::Tensor>& state, const std::string& file) {
  std::vector<torch::Tensor> other;
  torch::load(other, file);
  double largest = 0;
  for (std::size_t i = 0; i < state.size(); ++i) {
    largest = std::max(largest, (state[i] - other.at(i)).abs().max().item<double>());
  }
  std::printf("largest difference to %s: %.2e\n", file.c_str(), largest);
}

void run(const samples::Arguments& arguments) {
  const samples::World world = samples::world_from_environment();
  torch::manual_seed(arguments.seed);
  Net net;
  train(net, world, arguments);
  if (world.rank != 0) return;
  const auto state = state_of(net);
  if (!arguments.dump.empty()) torch::save(state, arguments.dump.string());
  if (!arguments.model.empty()) compare(state, arguments.model.string());
}

}  // namespace whole_batch

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, {"swapped-norms"}, {.steps = 20});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  whole_batch::run(arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "whole_batch: " << error.what() << "\n";
  return 2;
}
