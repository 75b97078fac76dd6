// Loops on two ranks that are right, and unlike the usual one: what they average, and when.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/plugin/merged_run.h"
#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::unusual_loops_test {
namespace {
constexpr int kSteps = 48;

struct LayersImpl : torch::nn::Module {
  LayersImpl() {
    first = register_module("first", torch::nn::Linear(8, 16));
    norm = register_module("norm", torch::nn::BatchNorm1d(16));
    second = register_module("second", torch::nn::Linear(16, 4));
  }
  at::Tensor loss(const at::Tensor& batch) {
    return second(norm(first(batch)).relu()).square().mean();
  }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear second{nullptr};
};
TORCH_MODULE(Layers);

/// What a step of a loop may use.
struct Loop {
  Place place;
  Group group = place.group();
  Layers net = Layers();
  torch::optim::SGD optimizer = torch::optim::SGD(net->parameters(), 0.02);
  std::vector<at::Tensor> kept = {};

  /// Each rank has data of its own, around another mean.
  void backward(double share = 1) {
    (net->loss(torch::randn({64, 8}) + place.rank) * share).backward();
  }
  void average(const at::Tensor& tensor) const {
    const torch::NoGradGuard no_grad;
    all_reduce(group, tensor);
    tensor.div_(place.ranks);
  }
  void average_gradients() const {
    for (const at::Tensor& parameter : net->parameters()) average(parameter.grad());
  }
  void average_weights() const {
    for (const at::Tensor& parameter : net->parameters()) average(parameter);
  }
  void step_together() {
    optimizer.zero_grad();
    backward();
    average_gradients();
    optimizer.step();
  }
};
using Step = void (*)(Loop& loop, int step);

Merged run(Step step) {
  const auto program = [step](const Place& place) {
    torch::manual_seed(1);
    Loop loop{.place = place};
    attach_diagnostics(loop.net, quiet());
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    for (int i = 1; i <= kSteps; ++i) step(loop, i);
    return 0;
  };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  return merge();
}

void expect_silence(Step step) {
  const Merged merged = run(step);
  INFO(merged.said);
  CHECK(merged.code == 0);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

/// Averages the gradients of each of two micro-batches, and keeps their sum beside them.
void keep_averages(Loop& loop, int) {
  std::vector<at::Tensor> sums;
  for (const at::Tensor& parameter : loop.net->parameters()) {
    sums.push_back(torch::zeros_like(parameter));
  }
  for (int part = 0; part < 2; ++part) {
    loop.optimizer.zero_grad();
    loop.backward(0.5);
    loop.average_gradients();
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += loop.net->parameters()[i].grad();
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    loop.net->parameters()[i].mutable_grad().copy_(sums[i]);
  }
  loop.optimizer.step();
}

/// Steps with the average of the step before.
void step_late(Loop& loop, int) {
  loop.optimizer.zero_grad();
  loop.backward();
  std::vector<at::Tensor> brought;
  for (const at::Tensor& parameter : loop.net->parameters()) {
    brought.push_back(parameter.grad().clone());
  }
  for (std::size_t i = 0; i < loop.kept.size(); ++i) {
    loop.net->parameters()[i].mutable_grad().copy_(loop.kept[i]);
  }
  if (!loop.kept.empty()) loop.optimizer.step();
  for (const at::Tensor& tensor : brought) loop.average(tensor);
  loop.kept = brought;
}

/// Averages gradients at first, later weights in each fourth step.
void train_locally(Loop& loop, int step) {
  if (step <= 12) return loop.step_together();
  loop.optimizer.zero_grad();
  loop.backward();
  loop.optimizer.step();
  if (step % 4 == 0) loop.average_weights();
}

/// Rank 0 looks at its gradients now and then.
void look_at_gradients(Loop& loop, int step) {
  loop.step_together();
  for (int i = 0; i < 3 && loop.place.rank == 0 && step % 10 == 0; ++i) {
    loop.optimizer.zero_grad();
    loop.backward();
  }
}

/// Averages the running statistics, and evaluates with them.
void evaluate_together(Loop& loop, int step) {
  loop.step_together();
  if (step % 8 != 0) return;
  loop.average(loop.net->norm->running_mean);
  loop.average(loop.net->norm->running_var);
  const torch::NoGradGuard no_grad;
  loop.net->eval();
  loop.net->loss(torch::randn({64, 8}));
  loop.net->train();
}

/// The same with what its own batches made of them.
void evaluate_alone(Loop& loop, int step) {
  loop.step_together();
  const torch::NoGradGuard no_grad;
  loop.net->eval();
  if (step % 8 == 0) loop.net->loss(torch::randn({64, 8}));
  loop.net->train();
}

/// Averages nothing but the loss that it shows.
void average_the_loss(Loop& loop, int) {
  loop.optimizer.zero_grad();
  const at::Tensor loss = loop.net->loss(torch::randn({64, 8}));
  loss.backward();
  loop.average(loss.detach().clone());
  loop.optimizer.step();
}

/// Averages what the step has used already, in one buffer.
void average_after_the_step(Loop& loop, int) {
  loop.optimizer.zero_grad();
  loop.backward();
  loop.optimizer.step();
  std::vector<at::Tensor> flat;
  for (const at::Tensor& parameter : loop.net->parameters()) {
    flat.push_back(parameter.grad().flatten());
  }
  loop.average(torch::cat(flat));
}

/// Gloo divides on threads of its own, then the program does once more.
void divide_twice(Loop& loop, int) {
  loop.optimizer.zero_grad();
  loop.backward();
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& parameter : loop.net->parameters()) {
    std::vector<at::Tensor> gradients = {parameter.grad()};
    c10d::AllreduceOptions average;
    average.reduceOp = c10d::ReduceOp::AVG;
    loop.group->allreduce(gradients, average)->wait();
    parameter.grad().div_(loop.place.ranks);
  }
  loop.optimizer.step();
}

/// Averages what the expert got, tensor by tensor or all of it in one buffer.
void average_expert(const Group& of_pair, torch::nn::Linear& expert, bool is_flat) {
  if (!is_flat) {
    for (const at::Tensor& parameter : expert->parameters()) {
      all_reduce(of_pair, parameter.grad());
      parameter.grad().div_(2);
    }
    return;
  }
  const at::Tensor flat =
      torch::cat({expert->weight.grad().flatten(), expert->bias.grad().flatten()});
  all_reduce(of_pair, flat);
  flat.div_(2);
  expert->weight.grad().copy_(flat.slice(0, 0, 16).view({4, 4}));
  expert->bias.grad().copy_(flat.slice(0, 16));
}

/// Two experts, each of a pair of ranks that averages its gradients, behind a net of all ranks.
int train_experts(const Place& place, bool is_flat) {
  const Group group = place.group();
  const int pair = place.rank / 2;
  const Place in_pair{.rank = place.rank % 2, .ranks = 2, .store = place.store};
  const Group of_pair = in_pair.group(
      c10::make_intrusive<c10d::PrefixStore>("pair" + std::to_string(pair), place.store));
  torch::manual_seed(1);
  Net net;
  torch::manual_seed(static_cast<std::uint64_t>(pair) + 10);
  torch::nn::Linear expert(4, 4);
  attach_diagnostics(net, quiet());
  attach_diagnostics(expert, quiet());
  std::vector<at::Tensor> all = net->parameters();
  for (const at::Tensor& parameter : expert->parameters()) all.push_back(parameter);
  torch::optim::SGD optimizer(all, 0.02);
  torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 20);
  for (int step = 1; step <= kSteps; ++step) {
    optimizer.zero_grad();
    expert(net(torch::randn({64, 8}))).square().mean().backward();
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& parameter : net->parameters()) {
      all_reduce(group, parameter.grad());
      parameter.grad().div_(4);
    }
    average_expert(of_pair, expert, is_flat);
    optimizer.step();
  }
  return 0;
}
}  // namespace

TEST_CASE("Experts of pairs of ranks that average them by themselves are a note") {
  const bool is_flat = GENERATE(false, true);
  const auto program = [is_flat](const Place& place) { return train_experts(place, is_flat); };
  CHECK(Ranks(4, program).exit_codes() == std::vector<int>{0, 0, 0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
  CHECK(merged.says("average over groups of their own"));
}

TEST_CASE("Averages of micro-batches that are summed beside the gradients are silent") {
  expect_silence(keep_averages);
}

TEST_CASE("Gradients of the step before, averaged meanwhile, are silent") {
  expect_silence(step_late);
}

TEST_CASE("Local updates after averaged gradients are a note that tells their period") {
  const Merged merged = run(train_locally);
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
  CHECK(merged.says("after 4 more"));
}

TEST_CASE("Backwards that one rank makes for itself are no skipped steps") {
  expect_silence(look_at_gradients);
}

TEST_CASE("Running statistics that are averaged before each evaluation are silent") {
  expect_silence(evaluate_together);
}

TEST_CASE("Running statistics of one rank that it evaluates with are found") {
  const Merged merged = run(evaluate_alone);
  INFO(merged.said);
  CHECK(merged.says("warning: 2 of 3 buffers differ between ranks"));
  CHECK(merged.says("[rank-buffers-differ]"));
}

TEST_CASE("Averages of Gloo that are divided again are found in each step") {
  const Merged merged = run(divide_twice);
  INFO(merged.said);
  CHECK(merged.says("(divided_twice)"));
  CHECK(read_ring(ring_path(1)).weights == std::vector<double>(kSteps, 0.5));  // its own
}

TEST_CASE("Gradients that are averaged after the step are found") {
  const Merged merged = run(average_after_the_step);
  INFO(merged.said);
  CHECK(merged.says("differ between ranks at step() (early) [grad-not-reduced]"));
  CHECK(merged.says("0 errors, 1 warning,"));
}

TEST_CASE("Gradients that nobody averages are found beside an average of losses") {
  const Merged merged = run(average_the_loss);
  INFO(merged.said);
  CHECK(merged.says("differ between ranks at step() (none_seen) [grad-not-reduced]"));
  CHECK(merged.says("collective was issued in that step, of a few numbers alone"));
  CHECK(merged.says("0 errors, 2 warnings,"));
}

}  // namespace ddpscope::test::unusual_loops_test
