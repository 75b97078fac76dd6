// Trains a network on made-up data and prints what a step took.
// hook_overhead MODEL STEPS [anomaly|thread|hooks|gate|nothing|stale STEP]; the variable DDPSCOPE
// says at which level it is watched. With `thread` the program has a second thread, which only
// sleeps: that alone makes each malloc of LibTorch slower. With `hooks` each module has an empty
// hook of the program's own in every second block of 8 steps, and the blocks are compared; with
// `gate` the hooks of ddpscope are in the gate in every second block; `nothing` compares the same
// blocks without a difference. With `stale` gradients are not cleared from that step on, counted
// from 1. `resnet-cuda` is `resnet` on a GPU, with 128 images, and `resnet-cuda-4` with as few as
// on the CPU; both need a LibTorch for CUDA.
#include <ATen/Context.h>
#include <dlfcn.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/gate_switch.h"
#include "benchmarks/larger_tasks.h"
#include "benchmarks/other_loops.h"
#include "benchmarks/step_times.h"
#include "benchmarks/watched.h"
#include "samples/digits/net.h"
#include "samples/digits/optimizers.h"

namespace benchmarks {
namespace {

constexpr std::size_t kFirstSteps = 64;
constexpr std::size_t kWarmUp = 96;
constexpr std::size_t kBlock = 8;
constexpr int kBatches = 16;

/// The step of samples/digits: its network, optimizer, losses and what it reads of them.
class DigitsTask {
 public:
  static constexpr std::int64_t kBatch = 32;

  DigitsTask() : net_(digits::Bug::kNone), optimizers_(make_optimizers(net_, /*rank=*/0, kNoBug)) {
    for (int i = 0; i < kBatches; ++i) {
      batches_.push_back({torch::randn({kBatch, 1, 28, 28}), torch::randint(10, {kBatch})});
    }
    watch(net_);
  }

  void step(std::size_t i) {
    const auto& [images, labels] = batches_[i % batches_.size()];
    clear_gradients(net_, optimizers_, clears_gradients ? kNoBug : digits::Bug::kNoZeroGrad);
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
    if (clears_gradients) optimizer_->zero_grad();
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

// One that sleeps until the process ends.
void start_thread() {
  std::thread([] { pause(); }).detach();
}

enum class Mode { kPlain, kAnomaly, kThread, kHooks, kGate, kNothing, kStale };
std::size_t first_stale = 0;  // step, from 1; 0: none

/// Moves what is allocated from here on to other places. The same step takes up to 4 % more or less
/// where its tensors lie differently, and hooks allocate: without this a comparison shows that.
void shuffle_heap() {
  static std::mt19937 random(1);
  static std::vector<std::unique_ptr<char[]>> held;
  held.clear();
  for (std::size_t count = random() % 64; count > 0; --count) {
    held.push_back(std::make_unique<char[]>(16 + random() % 8192));
  }
}

/// What is compared: blocks of steps alternate, the first without and the next with it.
void begin_block(Mode mode, bool with) {
  if (mode == Mode::kHooks) {
    with ? empty_hooks.add() : empty_hooks.remove();
  } else if (mode == Mode::kGate) {
    static GateSwitch gate(DDPSCOPE_GATE_NAMES);
    with ? gate.turn_on() : gate.turn_off();
  }
}

const char* compared_name(Mode mode) {
  switch (mode) {
    case Mode::kHooks:
      return "hooks";
    case Mode::kGate:
      return "gate";
    case Mode::kNothing:
      return "nothing";
    default:
      return nullptr;
  }
}

template <class Task>
void run(std::size_t steps, Mode mode) {
  torch::manual_seed(1);
  Task task;
  StepTimes times(steps);
  times.mark();
  for (std::size_t i = 0; i < steps; ++i) {
    if (i % kBlock == 0) shuffle_heap();
    if (i >= kWarmUp && i % kBlock == 0) begin_block(mode, i / kBlock % 2 == 1);
    if (i + 1 == first_stale) clears_gradients = false;
    task.step(i);
    times.mark();
  }
  if (const char* const name = compared_name(mode)) {
    times.print_pairs(name, kWarmUp, kBlock);
  } else if (steps < 2 * kWarmUp) {
    times.print("all", 0, steps);
  } else {
    times.print("first", 0, kFirstSteps);
    times.print("steady", kWarmUp, steps);
  }
  std::printf("sum %.17g\n", task.sum());  // equal with and without ddpscope
  empty_hooks.forget();
}

Mode mode_of(const std::string& word) {
  static const std::map<std::string, Mode> modes = {
      {"", Mode::kPlain},      {"anomaly", Mode::kAnomaly}, {"thread", Mode::kThread},
      {"hooks", Mode::kHooks}, {"gate", Mode::kGate},       {"nothing", Mode::kNothing},
      {"stale", Mode::kStale}};
  return modes.at(word);
}

/// The same sums in every run.
void prepare_cuda() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    throw std::runtime_error("this LibTorch is not one for CUDA");
  }
  at::globalContext().setDeterministicCuDNN(true);
}

int main_of(std::vector<std::string> words) try {
  static const std::map<std::string, void (*)(std::size_t, Mode)> models = {
      {"digits", run<DigitsTask>},
      {"mlp", run<MlpTask>},
      {"chars", run<CharsTask>},
      {"gan", run<GanTask>},
      {"search", run<SearchTask>},
      {"infer", run<InferTask>},
      {"grads", run<GradTask>},
      {"resnet", run<ResnetTask<>>},
      {"resnet-cuda", run<ResnetTask<c10::kCUDA, 128>>},
      {"resnet-cuda-4", run<ResnetTask<c10::kCUDA>>}};
  if (words.size() == 4 && words[2] == "stale") {
    first_stale = std::stoul(words[3]);
    words.pop_back();
  }
  if (words.size() == 2) words.emplace_back();
  if (words.size() != 3) throw std::out_of_range("three words");
  const auto train = models.at(words[0]);
  const std::size_t steps = std::stoul(words[1]);
  const Mode mode = mode_of(words[2]);
  if (steps < (mode == Mode::kAnomaly ? 1 : 2 * kWarmUp)) throw std::out_of_range("steps");
  if (mode == Mode::kAnomaly) find_anomalies();
  if (mode == Mode::kThread) start_thread();
  torch::set_num_threads(1);
  if (words[0].find("cuda") != std::string::npos) prepare_cuda();
  train(steps, mode);
  return 0;
} catch (const std::logic_error&) {
  std::fprintf(stderr,
               "usage: hook_overhead digits|mlp|chars|gan|resnet|resnet-cuda|resnet-cuda-4|\n"
               "         search|infer|grads STEPS\n"
               "         [thread|hooks|gate|nothing|stale STEP], %zu or more, or\n"
               "       hook_overhead MODEL STEPS anomaly\n",
               2 * kWarmUp);
  return 2;
}

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) try {
  return benchmarks::main_of({argv + 1, argv + argc});
} catch (const std::exception& error) {
  std::fprintf(stderr, "hook_overhead: %s\n", error.what());
  return 2;
}
