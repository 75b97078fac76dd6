// Learns which tone a noisy sound has, from several microphones and sounds of different length, in
// several processes that average their gradients. `--bug NAME` plants one of the mistakes marked
// BUG: each is slow or takes memory, and none gives a wrong number.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "samples/support/arguments.h"
#include "samples/support/process_group.h"
#include "samples/waits/sounds.h"

namespace waits {

using std::chrono::milliseconds;
constexpr std::int64_t kShortest = 32;
constexpr std::int64_t kBucket = 128;
constexpr std::int64_t kFilters = 32;
constexpr std::int64_t kWholeSet = std::int64_t{1} << 40;
constexpr std::int64_t kSpareElements = 32 << 20;

const samples::BugNames kBugs = {"slow-reads",       "slow-end",     "too-many-threads",
                                 "scores-kept",      "whole-set",    "ever-new-lengths",
                                 "reads-each-score", "all-on-first", "spare-on-first"};

struct EarImpl : torch::nn::Module {
  EarImpl() {
    filter = register_module(
        "filter",
        torch::nn::Conv1d(torch::nn::Conv1dOptions(kMicrophones, kFilters, 5).padding(2)));
    tones = register_module("tones", torch::nn::Linear(kFilters, kTones));
  }
  torch::Tensor forward(const torch::Tensor& sounds) {
    return tones(torch::relu(filter(sounds)).mean(2));
  }
  torch::nn::Conv1d filter{nullptr};
  torch::nn::Linear tones{nullptr};
};
TORCH_MODULE(Ear);

/// One GPU for each process.
torch::Device device_of(const samples::Arguments& arguments, const samples::World& world) {
  torch::Device device(arguments.device);
  if (!device.is_cuda() || device.has_index()) return device;
  const auto index = arguments.has("all-on-first") ? 0 : world.rank;  // BUG
  return torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(index));
}

class Trainer {
 public:
  Trainer(const samples::Arguments& arguments, const samples::World& world)
      : arguments_(arguments),
        world_(world),
        group_(samples::connect(world)),
        optimizer_(ear_->parameters(), torch::optim::AdamOptions(1e-3)),
        lengths_(static_cast<std::mt19937::result_type>(arguments.seed)),
        device_(device_of(arguments, world)) {
    if (arguments.has("spare-on-first") && device_.is_cuda()) {
      spare_ = torch::zeros({kSpareElements}, torch::Device(torch::kCUDA, 0));  // BUG
    }
    ear_->to(device_);
    if (arguments.diagnostics) ddpscope::attach_diagnostics(ear_);
    if (arguments.has("slow-reads")) slowness_.each = milliseconds(50);             // BUG
    if (arguments.has("slow-end")) slowness_.after_the_epoch = milliseconds(2000);  // BUG
  }

  void train() {
    torch::manual_seed(arguments_.seed + 1 + static_cast<std::uint64_t>(world_.rank));
    while (step_ < arguments_.steps) train_epoch();
  }

 private:
  void train_epoch() {
    const auto workers = arguments_.has("slow-end") ? 1U : 0U;
    auto loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
        Sounds(recordings_, slowness_),
        torch::data::DataLoaderOptions().batch_size(kSoundsPerBatch).workers(workers).max_jobs(4));
    std::int64_t steps = 0;
    for (const Batch& batch : *loader) {
      train_step(batch);
      if (++steps == kStepsPerEpoch || step_ == arguments_.steps) break;
    }
  }

  void train_step(const Batch& batch) {
    const auto sounds = batch.sounds.slice(2, 0, next_length()).to(device_);
    const auto tones = batch.tones.to(device_);
    if (arguments_.has("whole-set")) {
      const auto averages = torch::zeros({1, kFilters}, device_).expand({kWholeSet, kFilters});
      ear_->tones(averages);  // BUG
    }
    const auto scores = ear_(sounds);
    const auto loss = torch::nn::functional::cross_entropy(scores, tones);
    optimizer_.zero_grad();
    loss.backward();
    average_gradients();
    optimizer_.step();
    scores_.push_back(arguments_.has("scores-kept") ? scores : scores.detach().max());  // BUG
    if (arguments_.has("reads-each-score")) {
      for (std::int64_t i = 0; i < kSoundsPerBatch; ++i) {
        best_ = std::max(best_, scores[i].max().item<float>());  // BUG
      }
    }
    if (++step_ % 50 > 0 || world_.rank > 0) return;
    std::printf("step %d: loss %.4f\n", static_cast<int>(step_), loss.item<double>());
  }

  /// Sounds are cut to one of a few lengths, so that the filter meets few shapes.
  std::int64_t next_length() {
    const auto longest = static_cast<std::int64_t>(kLongest - kShortest);
    const std::int64_t length = kShortest + static_cast<std::int64_t>(lengths_()) % longest;
    if (arguments_.has("ever-new-lengths")) return length;  // BUG
    return std::min((length + kBucket - 1) / kBucket * kBucket, kLongest);
  }

  void average_gradients() {
    if (!group_) return;
    for (const auto& parameter : ear_->parameters()) {
      samples::add_over_ranks(group_, parameter.grad());
      parameter.grad().div_(world_.size);
    }
  }

  samples::Arguments arguments_;
  samples::World world_;
  samples::Group group_;
  Recordings recordings_;
  Slowness slowness_;
  Ear ear_;
  torch::optim::Adam optimizer_;
  std::mt19937 lengths_;
  torch::Device device_;
  torch::Tensor spare_;
  std::vector<torch::Tensor> scores_;
  float best_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace waits

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, waits::kBugs, {.steps = 310});
  if (arguments.only_lists) return 0;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  torch::set_num_threads(arguments.has("too-many-threads") ? 2 * cores : 1);  // BUG
  torch::manual_seed(arguments.seed);
  at::globalContext().setBenchmarkCuDNN(true);
  waits::Trainer(arguments, samples::world_from_environment()).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "waits: " << error.what() << "\n";
  return 2;
}
