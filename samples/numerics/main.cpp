// Learns which of a few patterns occurs in sequences of different lengths: a reader attends to the
// steps that are no padding and compares what it read with fixed codes in float16. `--bug NAME`
// plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>
#include <string>
#include <utility>

#include "samples/support/arguments.h"

namespace numerics {

constexpr std::int64_t kPatterns = 4;
constexpr std::int64_t kSequences = 32;
constexpr std::int64_t kLength = 12;
constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kHidden = 24;
constexpr double kInf = std::numeric_limits<double>::infinity();

const samples::BugNames kBugs = {"log-zero",    "masked-log", "sqrt-zero",    "half-overflow",
                                 "half-growth", "batch-nan",  "parameter-inf"};

struct Batch {
  torch::Tensor values;    // [sequences, length, width], zero where there is padding
  torch::Tensor padding;   // [sequences, length]
  torch::Tensor patterns;  // [sequences]
};

struct Reading {
  torch::Tensor logits;
  torch::Tensor hidden;
  torch::Tensor attention;
};

struct ReaderImpl : torch::nn::Module {
  ReaderImpl() {
    in = register_module("in", torch::nn::Linear(kWidth, kHidden));
    score = register_module("score", torch::nn::Linear(kHidden, 1));
    codes = register_module(
        "codes", torch::nn::Linear(torch::nn::LinearOptions(kHidden, kPatterns).bias(false)));
    torch::nn::init::orthogonal_(codes->weight, 2);
    codes->to(torch::kHalf);
    for (auto& code : codes->parameters()) code.set_requires_grad(false);
    gain = register_parameter("gain", torch::ones({kHidden}));
  }

  Reading forward(const Batch& batch, double temperature) {
    const auto padding = batch.padding.unsqueeze(2);
    const auto gained = torch::tanh(in(batch.values)) * gain;  // gain
    const auto hidden = gained * padding.logical_not();
    const auto scores = score(hidden).masked_fill(padding, -kInf);
    const auto attention = torch::softmax(scores, 1);
    const auto read = torch::nn::functional::normalize((attention * hidden).sum(1));
    const auto logits = codes((read / temperature).to(torch::kHalf)).to(torch::kFloat);
    return {logits, hidden, attention.squeeze(2)};
  }

  torch::nn::Linear in{nullptr}, score{nullptr}, codes{nullptr};
  torch::Tensor gain;
};
TORCH_MODULE(Reader);

class Trainer {
 public:
  explicit Trainer(samples::Arguments arguments)
      : arguments_(std::move(arguments)), optimizer_(trainable(), torch::optim::AdamOptions(5e-3)) {
    if (arguments_.diagnostics) ddpscope::attach_diagnostics(reader_);
    scale_gain();
  }

  void train() {
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      const double loss = train_step(batch_of(step));
      if (step % 20 == 0) std::printf("step %d: loss %.4f\n", static_cast<int>(step), loss);
    }
  }

 private:
  std::vector<torch::Tensor> trainable() const {
    std::vector<torch::Tensor> parameters;
    for (const auto& parameter : reader_->parameters()) {
      if (parameter.requires_grad()) parameters.push_back(parameter);
    }
    return parameters;
  }

  /// Of data that varies little the gain is larger.
  void scale_gain() {
    torch::NoGradGuard guard;
    const double deviation = arguments_.has("parameter-inf") ? 0 : 1;
    reader_->gain.div_(deviation);  // BUG parameter-inf
  }

  Batch batch_of(std::int64_t step) const {
    const auto lengths = torch::randint(4, kLength + 1, {kSequences, 1});
    const auto padding = torch::arange(kLength).unsqueeze(0) >= lengths;
    const auto patterns = torch::randint(kPatterns, {kSequences});
    const auto shown = patterns_.index_select(0, patterns).unsqueeze(1);
    auto values = shown + 0.3 * torch::randn({kSequences, kLength, kWidth});
    values.masked_fill_(padding.unsqueeze(2), 0);
    if (arguments_.has("batch-nan") && step == 20) values[3][0][5] = NAN;  // BUG batch-nan
    return {values, padding, patterns};
  }

  double train_step(const Batch& batch) {
    const Reading reading = reader_(batch, temperature());
    const auto loss = torch::cross_entropy_loss(reading.logits, batch.patterns) +
                      0.01 * entropy(reading.attention, batch.padding) +
                      0.01 * distance_from_one(reading.hidden);
    optimizer_.zero_grad();
    loss.backward();
    optimizer_.step();
    return loss.item<double>();
  }

  /// Falls from step to step, so that the decisions become sharper.
  double temperature() {
    if (arguments_.has("half-growth")) return temperature_ *= 0.88;      // BUG half-growth
    const double lowest = arguments_.has("half-overflow") ? 2e-5 : 0.1;  // BUG half-overflow
    temperature_ = std::max(0.7 * temperature_, lowest);
    return temperature_;
  }

  /// How widely the reader looks: over the steps that are no padding, whose attention is not 0.
  torch::Tensor entropy(const torch::Tensor& attention, const torch::Tensor& padding) const {
    torch::Tensor logarithm;
    if (arguments_.has("log-zero")) {
      logarithm = attention.log();  // BUG log-zero
    } else if (arguments_.has("masked-log")) {
      logarithm = torch::where(padding, torch::zeros_like(attention),
                               attention.log());  // BUG masked-log
    } else {
      logarithm = attention.clamp_min(1e-6).log();
    }
    return -(attention * logarithm).sum(1).mean();
  }

  torch::Tensor distance_from_one(const torch::Tensor& hidden) const {
    const double least = arguments_.has("sqrt-zero") ? 0 : 1e-6;
    const auto lengths = (hidden.square().sum(2) + least).sqrt();  // BUG sqrt-zero
    return (lengths - 1).square().mean();
  }

  samples::Arguments arguments_;
  Reader reader_;
  torch::optim::Adam optimizer_;
  torch::Tensor patterns_ = torch::randn({kPatterns, kWidth});
  double temperature_ = 1;
};

}  // namespace numerics

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, numerics::kBugs, {.steps = 200});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  numerics::Trainer(arguments).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "numerics: " << error.what() << "\n";
  return 2;
}
