// Trains a network on made-up data and prints what a step took.
// hook_overhead MODEL STEPS [anomaly|hooks]; the variable DDPSCOPE says at which level it is
// watched, `hooks` registers one empty hook for each module.
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/larger_tasks.h"
#include "benchmarks/step_times.h"
#include "benchmarks/watched.h"
#include "samples/digits/net.h"
#include "samples/digits/optimizers.h"

namespace benchmarks {
namespace {

constexpr std::size_t kFirstSteps = 64;
constexpr std::size_t kWarmUp = 96;
constexpr int kBatches = 16;

/// The step of samples/digits: its network, optimizer, losses and what it reads of them.
class DigitsTask {
 public:
  static constexpr std::int64_t kBatch = 32;

  DigitsTask() : net_(digits::Bug::kNone), optimizers_(make_optimizers(net_, kNoBug)) {
    for (int i = 0; i < kBatches; ++i) {
      batches_.push_back({torch::randn({kBatch, 1, 28, 28}), torch::randint(10, {kBatch})});
    }
    watch(net_);
  }

  void step(std::size_t i) {
    const auto& [images, labels] = batches_[i % batches_.size()];
    clear_gradients(net_, optimizers_, kNoBug);
    const digits::Outputs outputs = net_(images);
    torch::Tensor loss = torch::cross_entropy_loss(outputs.logits, labels);
    loss = loss + 0.3 * torch::cross_entropy_loss(outputs.aux_logits, labels);
    loss.backward();
    for (const auto& optimizer : optimizers_) optimizer->step();
    sum_ += loss.item<double>();
    sum_ += outputs.logits.argmax(1).eq(labels).sum().item<double>();
  }

  double sum() const { return sum_; }

 private:
  static constexpr digits::Bug kNoBug = digits::Bug::kNone;
  digits::Net net_;
  digits::Optimizers optimizers_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> batches_;
  double sum_ = 0;
};

/// Ten layers of 128: so little work per layer that what a hook costs shows.
class MlpTask {
 public:
  static constexpr std::int64_t kBatch = 64;
  static constexpr std::int64_t kWidth = 128;
  static constexpr int kLayers = 10;

  MlpTask() {
    for (int i = 0; i < kLayers; ++i) {
      net_->push_back(torch::nn::Linear(kWidth, kWidth));
      if (i + 1 < kLayers) net_->push_back(torch::nn::ReLU());
    }
    optimizer_ = std::make_unique<torch::optim::SGD>(net_->parameters(), 0.01);
    for (int i = 0; i < kBatches; ++i) {
      batches_.push_back({torch::randn({kBatch, kWidth}), torch::randn({kBatch, kWidth})});
    }
    watch(net_);
  }

  void step(std::size_t i) {
    const auto& [in, out] = batches_[i % batches_.size()];
    optimizer_->zero_grad();
    const torch::Tensor loss = torch::mse_loss(net_->forward(in), out);
    loss.backward();
    optimizer_->step();
    sum_ += loss.item<double>();
  }

  double sum() const { return sum_; }

 private:
  torch::nn::Sequential net_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> batches_;
  double sum_ = 0;
};

// LibTorch's own way to the line that made a node. It is so slow that few steps are enough.
void find_anomalies() { torch::autograd::AnomalyMode::set_enabled(true, /*check_nan=*/false); }

template <class Task>
void run(std::size_t steps) {
  torch::manual_seed(1);
  Task task;
  StepTimes times(steps);
  times.mark();
  for (std::size_t i = 0; i < steps; ++i) {
    task.step(i);
    times.mark();
  }
  if (steps < 2 * kWarmUp) {
    times.print("all", 0, steps);
  } else {
    times.print("first", 0, kFirstSteps);
    times.print("steady", kWarmUp, steps);
  }
  std::printf("sum %.17g\n", task.sum());  // equal with and without ddpscope
}

int main_of(const std::vector<std::string>& words) {
  static const std::map<std::string, void (*)(std::size_t)> models = {{"digits", run<DigitsTask>},
                                                                      {"mlp", run<MlpTask>},
                                                                      {"chars", run<CharsTask>},
                                                                      {"gan", run<GanTask>},
                                                                      {"resnet", run<ResnetTask>}};
  const bool anomaly = words.size() == 3 && words[2] == "anomaly";
  hooks_wanted = words.size() == 3 && words[2] == "hooks";
  const bool understood = anomaly || hooks_wanted || words.size() == 2;
  const std::size_t steps = understood ? std::stoul(words[1]) : 0;
  const auto model = models.find(words.empty() ? "" : words[0]);
  if (steps < (anomaly ? 1 : 2 * kWarmUp) || model == models.end()) {
    std::fprintf(stderr,
                 "usage: hook_overhead digits|mlp|chars|gan|resnet STEPS [hooks], %zu or more, or\n"
                 "       hook_overhead MODEL STEPS anomaly\n",
                 2 * kWarmUp);
    return 2;
  }
  if (anomaly) find_anomalies();
  torch::set_num_threads(1);
  model->second(steps);
  return 0;
}

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) try {
  return benchmarks::main_of({argv + 1, argv + argc});
} catch (const std::exception& error) {
  std::fprintf(stderr, "hook_overhead: %s\n", error.what());
  return 2;
}
