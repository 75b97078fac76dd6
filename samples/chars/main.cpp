// Trains a small transformer to write the characters of a text, in one process or in several whose
// gradients are averaged by hand. `--bug NAME` plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "samples/chars/model.h"
#include "samples/chars/text_data.h"
#include "samples/chars/training.h"
#include "samples/support/arguments.h"
#include "samples/support/process_group.h"

namespace chars {
namespace {

constexpr std::int64_t kBatch = 8;         // windows per backward
constexpr std::int64_t kMicroBatches = 2;  // backwards per step
constexpr double kAfterWeight = 0.3;

const samples::BugNames kBugs = {"unregistered-blocks", "nothing-registered",  "tied-by-assignment",
                                 "tied-twice",          "forgotten-positions", "no-grad-positions",
                                 "dropped-norm",        "unused-after",        "late-after",
                                 "forgotten-group",     "no-zero-grad",        "averaged-each",
                                 "seed-for-all"};

class Trainer {
 public:
  Trainer(const samples::Arguments& arguments, const samples::World& world)
      : arguments_(arguments),
        world_(world),
        group_(samples::connect(world)),
        data_(arguments.texts, Sizes().context),
        model_((torch::manual_seed(arguments.seed), Sizes{.vocabulary = data_.vocabulary()}),
               arguments.bug),
        optimizer_(make_optimizer(model_, arguments.bug)) {
    if (arguments_.has("late-after")) {
      model_->after = torch::nn::Linear(Sizes().width, data_.vocabulary());
      model_->replace_module("after", model_->after);  // BUG
    }
    broadcast_parameters(group_, model_);
    if (arguments_.diagnostics) ddpscope::attach_diagnostics(model_);
  }

  void train() {
    if (static_cast<std::int64_t>(data_.size().value()) < kBatch * kMicroBatches * world_.size) {
      throw std::runtime_error("the text is too short for one step");
    }
    if (!arguments_.has("seed-for-all")) {  // BUG seed-for-all
      torch::manual_seed(arguments_.seed + 1 + static_cast<std::uint64_t>(world_.rank));
    }
    for (std::size_t epoch = 0; !finished(); ++epoch) train_epoch(epoch);
    if (world_.rank == 0) write("The ", 120);
    if (group_) group_->barrier()->wait();
    if (arguments_.dump.empty()) return;
    const std::string file = arguments_.dump.string() + "." + std::to_string(world_.rank);
    write_dump(file, model_, *optimizer_, losses_);
  }

 private:
  bool finished() const { return static_cast<std::int64_t>(losses_.size()) >= arguments_.steps; }

  void train_epoch(std::size_t epoch) {
    torch::data::samplers::DistributedRandomSampler sampler(data_.size().value(),
                                                            static_cast<std::size_t>(world_.size),
                                                            static_cast<std::size_t>(world_.rank));
    sampler.set_epoch(epoch);
    auto loader = torch::data::make_data_loader(
        data_.map(torch::data::transforms::Stack<>()), std::move(sampler),
        torch::data::DataLoaderOptions(kBatch * kMicroBatches).drop_last(true));
    model_->train();
    for (const auto& batch : *loader) {
      train_step(batch);
      if (finished()) break;
    }
  }

  void train_step(const torch::data::Example<>& batch) {
    set_learning_rate(*optimizer_, static_cast<std::int64_t>(losses_.size()), arguments_.steps);
    if (!arguments_.has("no-zero-grad")) optimizer_->zero_grad();  // BUG
    double sum = 0;
    for (std::int64_t i = 0; i < kMicroBatches; ++i) {
      const Logits logits = model_(batch.data.narrow(0, i * kBatch, kBatch));
      const auto loss = loss_of(logits, batch.target.narrow(0, i * kBatch, kBatch));
      (loss / kMicroBatches).backward();
      sum += loss.item<double>();
      const bool is_last = i + 1 == kMicroBatches;
      if (is_last || arguments_.has("averaged-each")) average_gradients(group_, model_);  // BUG
    }
    torch::nn::utils::clip_grad_norm_(model_->parameters(), 1.0);
    optimizer_->step();
    losses_.push_back(static_cast<float>(sum / kMicroBatches));
    if (losses_.size() % 20 == 0) print();
  }

  torch::Tensor loss_of(const Logits& logits, const torch::Tensor& targets) const {
    const auto loss_for = [&](const torch::Tensor& outputs, std::int64_t ahead) {
      return torch::cross_entropy_loss(outputs.flatten(0, 1), targets.select(2, ahead).flatten());
    };
    auto loss = loss_for(logits.next, 0);
    if (arguments_.has("unused-after")) return loss;  // BUG
    return loss + kAfterWeight * loss_for(logits.after, 1);
  }

  void print() const {
    if (world_.rank != 0) return;
    std::printf("step %zu: loss %.3f\n", losses_.size(), losses_.back());
    std::fflush(stdout);
  }

  // Continues a text with characters drawn from the model.
  void write(const std::string& begin, int count) {
    torch::NoGradGuard guard;
    model_->eval();
    std::vector<std::int64_t> text;
    for (const char c : begin) text.push_back(data_.token(c));
    while (static_cast<int>(text.size()) < count) {
      const auto from = text.size() - std::min<std::size_t>(text.size(), Sizes().context);
      const auto window = torch::tensor(text).slice(0, static_cast<std::int64_t>(from));
      const auto logits = model_(window.unsqueeze(0)).next[0][-1];
      text.push_back(torch::softmax(logits, 0).multinomial(1).item<std::int64_t>());
    }
    for (const auto token : text) std::cout << data_.character(token);
    std::cout << std::endl;
    model_->train();
  }

  samples::Arguments arguments_;
  samples::World world_;
  samples::Group group_;
  TextData data_;
  CharModel model_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  std::vector<float> losses_;
};

}  // namespace
}  // namespace chars

int main(int argc, char** argv) try {
  auto arguments = samples::parse(argc, argv, chars::kBugs, {.steps = 200});
  if (arguments.only_lists) return 0;
  if (arguments.texts.empty()) arguments.texts = {CHARS_README, CHARS_DOCS};
  torch::set_num_threads(1);
  chars::Trainer(arguments, samples::world_from_environment()).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "chars: " << error.what() << "\n";
  return 2;
}
