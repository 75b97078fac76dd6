// Trains a small convolutional network on images of digits, in one process or in several whose
// gradients are averaged by hand. `--bug NAME` plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "samples/digits/averaging.h"
#include "samples/digits/dump.h"
#include "samples/digits/image_data.h"
#include "samples/digits/net.h"
#include "samples/digits/optimizers.h"
#include "samples/digits/options.h"
#include "samples/support/process_group.h"

namespace digits {
namespace {

constexpr double kAuxWeight = 0.3;
constexpr std::size_t kReplicas = 8;  // of the machines that this was written for

class Trainer {
 public:
  Trainer(const Options& options, const samples::World& world)
      : options_(options),
        world_(world),
        group_(samples::connect(world, std::chrono::seconds(options.timeout_s))),
        data_(options.data),
        net_((torch::manual_seed(first_seed()), options.bug), world.rank),
        optimizers_(make_optimizers(net_, world.rank, options.bug)) {
    if (options_.bug == Bug::kReplacedHead) {
      net_->head = torch::nn::Linear(kFeatures, 10);
      net_->replace_module("head", net_->head);  // BUG
    }
    broadcast_state(group_, *net_, options_.bug);
    if (options_.diagnostics) ddpscope::attach_diagnostics(net_);
  }

  void train() {
    // Random numbers drawn from here on differ between the processes.
    torch::manual_seed(options_.seed + 1 + static_cast<std::uint64_t>(world_.rank));
    net_->train();
    for (std::int64_t epoch = 0; epoch < options_.epochs && !finished() && !left_early_; ++epoch) {
      train_epoch(epoch);
    }
    if (left_early_) return;
    if (group_) group_->barrier()->wait();
    if (!options_.dump.empty()) {
      const std::string file = options_.dump.string() + "." + std::to_string(world_.rank);
      write_dump(file, net_, optimizers_, losses_);
    }
  }

 private:
  struct Score {
    double loss = 0;
    double correct = 0;
    double images = 0;
  };

  // What the processes draw differently is made equal by the broadcast.
  std::uint64_t first_seed() const {
    return options_.seed + static_cast<std::uint64_t>(world_.rank) * 1000;
  }

  bool finished() const { return options_.max_steps > 0 && batches_ >= options_.max_steps; }

  bool is_third_of_rank_1(Bug bug) const {
    return options_.bug == bug && world_.rank == 1 && batches_ == 3;
  }

  // The loader keeps a copy of its sampler, so each epoch has its own of both.
  void train_epoch(std::int64_t epoch) {
    auto replicas = static_cast<std::size_t>(world_.size);
    if (options_.bug == Bug::kFixedReplicas) replicas = kReplicas;  // BUG
    torch::data::samplers::DistributedRandomSampler sampler(data_.size().value(), replicas,
                                                            static_cast<std::size_t>(world_.rank));
    if (options_.bug != Bug::kSameOrder) {
      sampler.set_epoch(static_cast<std::size_t>(epoch));  // BUG
    }
    auto loader = torch::data::make_data_loader(
        data_.map(torch::data::transforms::Stack<>()), std::move(sampler),
        torch::data::DataLoaderOptions(static_cast<std::size_t>(options_.batch)).drop_last(true));
    Score score;
    for (const auto& batch : *loader) {
      ++batches_;
      if (is_third_of_rank_1(Bug::kSkippedBatch)) continue;  // BUG
      train_step(batch, score);
      left_early_ = is_third_of_rank_1(Bug::kEarlyEnd);  // BUG
      if (finished() || left_early_) break;
    }
    if (!left_early_) print(epoch, score);
  }

  // Looks after the next images while this step runs. An exception must not leave its thread.
  void read_ahead() const {
    std::thread reader([this] {
      if (options_.bug == Bug::kReaderThrows && world_.rank == 1 && losses_.size() == 1) {
        throw std::runtime_error("image 33 is cut off");  // BUG
      }
    });
    reader.join();
  }

  void train_step(const torch::data::Example<>& batch, Score& score) {
    if (options_.bug == Bug::kReaderThrows) read_ahead();
    clear_gradients(net_, optimizers_, options_.bug);
    const Outputs outputs = net_(batch.data);
    torch::Tensor loss = torch::cross_entropy_loss(outputs.logits, batch.target);
    if (options_.bug != Bug::kUnusedHead && !is_third_of_rank_1(Bug::kHeadByRank)) {  // BUG
      loss = loss + kAuxWeight * torch::cross_entropy_loss(outputs.aux_logits, batch.target);
    }
    loss.backward();
    average_gradients(group_, *net_, options_.bug);
    for (const auto& optimizer : optimizers_) optimizer->step();

    losses_.push_back(loss.item<float>());
    score.loss += losses_.back() * static_cast<double>(batch.target.size(0));
    score.correct += outputs.logits.argmax(1).eq(batch.target).sum().item<double>();
    score.images += static_cast<double>(batch.target.size(0));
  }

  void print(std::int64_t epoch, const Score& score) {
    torch::Tensor sums = torch::tensor({score.loss, score.correct, score.images});
    if (group_) samples::add_over_ranks(group_, sums);
    if (world_.rank != 0) return;
    const double images = sums[2].item<double>();
    std::printf("epoch %d: loss %.4f, accuracy %.1f %%\n", static_cast<int>(epoch + 1),
                sums[0].item<double>() / images, 100 * sums[1].item<double>() / images);
    std::fflush(stdout);
  }

  Options options_;
  samples::World world_;
  samples::Group group_;
  ImageData data_;
  Net net_;
  Optimizers optimizers_;
  std::int64_t batches_ = 0;
  bool left_early_ = false;
  std::vector<float> losses_;
};

}  // namespace
}  // namespace digits

int main(int argc, char** argv) try {
  const digits::Options options = digits::parse({argv + 1, argv + argc});
  if (options.help) {
    std::cout << digits::usage();
    return 0;
  }
  if (options.list_bugs) {
    for (const auto name : digits::bug_names()) std::cout << name << "\n";
    return 0;
  }
  torch::set_num_threads(1);
  digits::Trainer(options, samples::world_from_environment()).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "digits: " << error.what() << "\n";
  return 2;
}
