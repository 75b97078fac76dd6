// A network learns one task and is saved; a second program part loads its body, freezes the stem,
// puts a new head on it and learns another task, with a validation after every few steps; later the
// stem learns, too.
// `--bug NAME` plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "samples/support/arguments.h"

namespace finetune {

constexpr std::int64_t kInputs = 8;
constexpr std::int64_t kWidth = 24;
constexpr std::int64_t kThawStep = 36;

const samples::BugNames kBugs = {
    "head-after-optimizer", "left-in-eval", "frozen-norm-trains", "unregistered-mean",
    "rebound-mean",         "idle-head",    "dotted-names",       "transposed-features",
    "detached-loss",        "thawed-late"};

struct BodyImpl : torch::nn::Module {
  BodyImpl() {
    stem = register_module("stem", torch::nn::Linear(kInputs, kWidth));
    norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
    hidden = register_module("hidden", torch::nn::Linear(kWidth, kWidth));
  }
  torch::Tensor forward(const torch::Tensor& input) {
    return torch::relu(hidden(torch::relu(norm(stem(input)))));
  }
  torch::nn::Linear stem{nullptr}, hidden{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Body);

struct NetImpl : torch::nn::Module {
  NetImpl(std::int64_t outputs, const samples::Arguments& arguments) {
    body = register_module("body", Body());
    mean = torch::zeros({kWidth});
    if (!arguments.has("unregistered-mean")) register_buffer("mean", mean);  // BUG
    head = register_module("head", torch::nn::Linear(kWidth, outputs));
    side = register_module("side", torch::nn::Linear(kWidth, 1));
  }
  torch::nn::Linear head{nullptr};
  torch::nn::Linear side{nullptr};  ///< predicts the length of the input
  Body body{nullptr};
  torch::Tensor mean;  ///< running mean of the features
};
TORCH_MODULE(Net);

struct Batch {
  torch::Tensor inputs;
  torch::Tensor labels;
  torch::Tensor lengths;
};

Batch draw_batch(std::int64_t classes) {
  const auto inputs = torch::randn({32, kInputs});
  const auto labels = inputs.slice(1, 0, classes).argmax(1);
  return {inputs, labels, inputs.norm(2, 1, /*keepdim=*/true)};
}

class Task {
 public:
  Task(Net net, std::int64_t classes, const samples::Arguments& arguments)
      : net_(std::move(net)), classes_(classes), arguments_(arguments) {}

  void train(torch::optim::Optimizer& optimizer) {
    net_->train();
    for (std::int64_t step = 0; step < arguments_.steps; ++step) {
      if (!arguments_.has("frozen-norm-trains")) quiet_frozen_norm();  // BUG
      if (step == kThawStep) thaw_stem(optimizer);
      optimizer.zero_grad();
      loss(draw_batch(classes_)).backward();
      optimizer.step();
      if (step % 5 == 4) validate();
    }
  }

  double accuracy() const { return accuracy_; }

 private:
  // Its statistics belong to its weights.
  void quiet_frozen_norm() {
    if (!net_->body->norm->weight.requires_grad()) net_->body->norm->eval();
  }

  // What was frozen while the head was new learns with it from here on.
  void thaw_stem(torch::optim::Optimizer& optimizer) {
    auto parameters = net_->body->stem->parameters();
    if (parameters.front().requires_grad()) return;
    for (auto& parameter : parameters) parameter.requires_grad_(true);
    if (!arguments_.has("thawed-late")) optimizer.add_param_group({parameters});  // BUG
  }

  torch::Tensor loss(const Batch& batch) {
    auto features = net_->body(batch.inputs);
    follow_mean(features);
    if (arguments_.has("transposed-features")) features = features.t();  // BUG
    const auto centred = features - net_->mean;
    const auto main = torch::cross_entropy_loss(net_->head(centred), batch.labels);
    const double weight = arguments_.has("idle-head") ? 0 : 0.1;  // BUG
    auto lengths = torch::mse_loss(net_->side(centred), batch.lengths);
    if (arguments_.has("detached-loss")) lengths = lengths.detach();  // BUG detached-loss
    return main + weight * lengths;
  }

  void follow_mean(const torch::Tensor& features) {
    const auto now = features.detach().mean(0);
    if (arguments_.has("rebound-mean")) {
      net_->mean = 0.9 * net_->mean + 0.1 * now;  // BUG
    } else {
      net_->mean.mul_(0.9).add_(now, 0.1);
    }
  }

  void validate() {
    const torch::NoGradGuard guard;
    net_->eval();
    const Batch batch = draw_batch(classes_);
    const auto right = net_->head(net_->body(batch.inputs) - net_->mean).argmax(1).eq(batch.labels);
    accuracy_ = right.to(torch::kFloat32).mean().item<double>();
    if (!arguments_.has("left-in-eval")) net_->train();  // BUG
  }

  Net net_;
  std::int64_t classes_;
  const samples::Arguments& arguments_;
  double accuracy_ = 0;
};

// The weights of a network that has learnt to find the largest of four inputs.
std::string pretrain(const samples::Arguments& arguments) {
  samples::Arguments correct = arguments;
  correct.bug = "none";
  Net net(4, correct);
  Task task(net, 4, correct);
  torch::optim::SGD optimizer(net->parameters(), 0.05);
  task.train(optimizer);
  std::ostringstream file;
  torch::serialize::OutputArchive archive;
  net->save(archive);
  archive.save_to(file);
  return file.str();
}

void load_body(const std::string& weights, Net& net, bool by_dotted_names) {
  std::istringstream file(weights);
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  if (!by_dotted_names) {
    torch::serialize::InputArchive body;
    archive.read("body", body);
    net->body->load(body);
    return;
  }
  for (const auto& item : net->body->named_parameters()) {
    torch::Tensor value = item.value();
    const torch::NoGradGuard guard;
    archive.try_read("body." + item.key(), value);  // BUG
  }
}

std::vector<torch::Tensor> trainable(const Net& net) {
  std::vector<torch::Tensor> parameters = net->parameters();
  std::erase_if(parameters, [](const torch::Tensor& one) { return !one.requires_grad(); });
  return parameters;
}

void tune(const std::string& weights, const samples::Arguments& arguments) {
  Net net(4, arguments);
  if (arguments.diagnostics) ddpscope::attach_diagnostics(net);
  load_body(weights, net, arguments.has("dotted-names"));
  for (auto& parameter : net->body->stem->parameters()) parameter.requires_grad_(false);
  for (auto& parameter : net->body->norm->parameters()) parameter.requires_grad_(false);
  const auto put_head = [&net] {
    net->head = net->replace_module("head", torch::nn::Linear(kWidth, 3));
  };
  if (!arguments.has("head-after-optimizer")) put_head();
  const auto options = torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01);
  torch::optim::SGD optimizer(trainable(net), options);
  if (arguments.has("head-after-optimizer")) put_head();  // BUG
  Task task(net, 3, arguments);
  task.train(optimizer);
  std::printf("accuracy %.1f %%\n", 100 * task.accuracy());
}

}  // namespace finetune

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, finetune::kBugs, {.steps = 60});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  const std::string weights = finetune::pretrain(arguments);
  finetune::tune(weights, arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "finetune: " << error.what() << "\n";
  return 2;
}
