// Fits waves, in the ways beside the plain one in which processes share such work; `--way NAME`
// chooses one. All of them are right. `--bug NAME` plants the mistake marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "samples/loops/reducer.h"
#include "samples/loops/waves.h"
#include "samples/support/arguments.h"
#include "samples/support/process_group.h"

namespace loops {

constexpr std::int64_t kRows = 32;

const samples::BugNames kBugs = {"maximum-on-one-rank", "rate-of-its-own", "averages-not-asked-for",
                                 "middle-left-out",     "sum-not-divided", "divided-twice",
                                 "copy-not-returned",   "last-part-alone", "same-data",
                                 "flipped-bit",         "clipped-each",    "clipped-on-first",
                                 "divided-before-wait", "slow-rank",       "parts-divided-twice"};

class Trainer {
 public:
  Trainer(const samples::Arguments& arguments, const samples::World& world)
      : arguments_(arguments),
        world_(world),
        store_(samples::make_store(world)),
        all_(samples::make_group(store_, world)) {
    double rate = 0.05;
    if (arguments.has("rate-of-its-own")) rate /= world.rank + 1;  // BUG rate-of-its-own
    optimizer_ = std::make_unique<torch::optim::SGD>(net_->parameters(),
                                                     torch::optim::SGDOptions(rate).momentum(0.9));
    net_->leaves_middle_out = arguments.has("middle-left-out");  // BUG middle-left-out
    if (arguments.has("slow-rank") && world.rank == 1) {
      net_->pause = std::chrono::milliseconds(20);  // BUG slow-rank
    }
    if (arguments.diagnostics && store_) {
      ddpscope::set_exchange(store_, world.rank, world.size);  // for hosts without a common folder
    }
    if (arguments.diagnostics) ddpscope::attach_diagnostics(net_);
    broadcast_from(all_, 0);
    const auto own = static_cast<std::uint64_t>(world.rank);
    torch::manual_seed(arguments.seed + 1 +
                       (arguments.has("same-data") ? 0 : own));  // BUG same-data
  }

  /// Gradients are averaged after the last of four backward calls, in one buffer.
  void accumulate() {
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      net_->zero_grad();
      for (int part = 0; part < 4; ++part) {
        if (arguments_.has("last-part-alone") && part == 3)
          average_in_one(all_);  // BUG last-part-alone
        (loss() / 4).backward();
      }
      if (!arguments_.has("last-part-alone")) average_in_one(all_);
      optimizer_->step();
    }
  }

  /// Each process keeps the momentum of its share of the parameters, and sends what it made of
  /// them.
  void shard() {
    const auto parameters = net_->parameters();
    std::vector<torch::Tensor> own;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (owner_of(i) == world_.rank) own.push_back(parameters[i]);
    }
    optimizer_ =
        std::make_unique<torch::optim::SGD>(own, torch::optim::SGDOptions(0.05).momentum(0.9));
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      net_->zero_grad();
      loss().backward();
      average_gradients(all_);
      optimizer_->step();
      if (!all_) continue;
      torch::NoGradGuard guard;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        samples::broadcast(all_, parameters[i], owner_of(i));
      }
    }
  }

  /// Processes have different numbers of batches. One that has none left goes on with zeros until
  /// nobody has any.
  void join() {
    const std::int64_t batches = arguments_.steps - 2 * world_.rank;
    for (std::int64_t step = 1;; ++step) {
      const bool has_batch = step <= batches;
      torch::Tensor active = torch::full({1}, has_batch ? 1.0 : 0.0);
      if (all_) samples::add_over_ranks(all_, active);
      if (active.item<double>() == 0) return;
      net_->zero_grad();
      if (has_batch) {
        loss().backward();
      } else {
        for (auto& parameter : net_->parameters()) {
          parameter.mutable_grad() = torch::zeros_like(parameter);
        }
      }
      average_gradients(all_, active.item<double>());
      optimizer_->step();
    }
  }

  /// Pairs of processes train a network of their own each; they too average in one buffer.
  void pair() {
    const samples::World pair = {.rank = world_.rank % 2,
                                 .size = std::min(world_.size - world_.rank / 2 * 2, 2)};
    const samples::Group group =
        samples::make_group(store_, pair, "pair" + std::to_string(world_.rank / 2));
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      net_->zero_grad();
      loss().backward();
      average_in_one(group);
      optimizer_->step();
    }
  }

  /// The first process evaluates while the others wait for it in the next step.
  void evaluate() {
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      train_once(all_);
      if (step % 10 > 0 || world_.rank > 0) continue;
      torch::NoGradGuard guard;
      net_->eval();
      for (int i = 0; i < 20; ++i) loss();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      net_->train();
    }
  }

  /// Every process takes steps of its own; now and then their weights are averaged.
  void meet() {
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      train_once({});
      if (step % 8 > 0 || !all_) continue;
      torch::NoGradGuard guard;
      for (const auto& parameter : net_->parameters()) {
        samples::add_over_ranks(all_, parameter);
        parameter.div_(world_.size);
      }
    }
  }

  /// A Reducer averages gradients while backward runs.
  void reduce() { train_reduced(*make_reducer(store_, all_, net_->parameters())); }

  /// The same, told that every step is like the first one.
  void repeat() {
    const auto reducer = make_reducer(store_, all_, net_->parameters());
    reducer->set_static_graph();
    train_reduced(*reducer, /*is_static=*/true);
  }

 private:
  torch::Tensor loss() {
    const auto x = torch::rand({kRows, kInputs});
    const auto wave = torch::sin(6 * x.sum(1, /*keepdim=*/true));
    return torch::mse_loss(net_(x), wave);
  }

  int owner_of(std::size_t parameter) const { return static_cast<int>(parameter) % world_.size; }

  void train_reduced(c10d::Reducer& reducer, bool is_static = false) {
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      net_->zero_grad();
      reducer.prepare_for_forward();
      if (reducer.should_rebuild_buckets()) reducer.rebuild_buckets();
      const torch::Tensor result = loss();
      reducer.prepare_for_backward({});
      result.backward();
      const bool asks = is_static && step == 1;
      if (asks && !arguments_.has("averages-not-asked-for")) {  // BUG averages-not-asked-for
        reducer.delay_all_reduce();
      }
      optimizer_->step();
    }
  }

  void train_once(const samples::Group& group) {
    net_->zero_grad();
    loss().backward();
    if (arguments_.has("clipped-each")) clip();  // BUG clipped-each
    average_gradients(group);
    if (arguments_.has("clipped-on-first") && world_.rank == 0) clip();  // BUG clipped-on-first
    const bool fails = ++trained_ == 20 && world_.rank == 1;
    if (fails && arguments_.has("flipped-bit")) flip_bit(net_->middle->weight.grad());
    optimizer_->step();
  }

  void clip() { torch::nn::utils::clip_grad_norm_(net_->parameters(), 0.05); }

  // As memory that fails would.
  static void flip_bit(const torch::Tensor& tensor) {
    auto* const words = static_cast<std::uint32_t*>(tensor.mutable_data_ptr());
    words[tensor.numel() / 2] ^= 1u << 20;  // BUG flipped-bit
  }

  void average_gradients(const samples::Group& group) {
    average_gradients(group, group ? group->getSize() : 1);
  }
  void average_gradients(const samples::Group& group, double count) {
    if (!group) return;
    torch::NoGradGuard guard;
    for (const auto& parameter : net_->parameters()) {
      torch::Tensor gradient = parameter.grad();
      if (arguments_.has("divided-before-wait")) {
        std::vector<torch::Tensor> one = {gradient};
        const auto work = group->allreduce(one);
        gradient.div_(count);  // BUG divided-before-wait
        work->wait();
        continue;
      }
      samples::add_over_ranks(group, gradient);
      if (arguments_.has("sum-not-divided")) continue;  // BUG sum-not-divided
      gradient.div_(count);
      if (arguments_.has("divided-twice")) gradient.div_(count);  // BUG divided-twice
    }
  }

  void average_in_one(const samples::Group& group) {
    if (!group) return;
    torch::NoGradGuard guard;
    std::vector<torch::Tensor> parts;
    for (const auto& parameter : net_->parameters()) parts.push_back(parameter.grad().flatten());
    std::vector<torch::Tensor> buffer = {torch::cat(parts)};
    c10d::AllreduceOptions options;
    if (arguments_.has("maximum-on-one-rank") && world_.rank == 1) {
      options.reduceOp = c10d::ReduceOp::MAX;  // BUG maximum-on-one-rank
    }
    group->allreduce(buffer, options)->wait();
    if (arguments_.has("copy-not-returned")) return;                     // BUG copy-not-returned
    const int of_parts = arguments_.has("parts-divided-twice") ? 4 : 1;  // BUG parts-divided-twice
    std::int64_t begin = 0;
    for (const auto& parameter : net_->parameters()) {
      const torch::Tensor part = buffer[0].narrow(0, begin, parameter.numel());
      parameter.grad().copy_(part.view_as(parameter) / (group->getSize() * of_parts));
      begin += parameter.numel();
    }
  }

  void broadcast_from(const samples::Group& group, int root) {
    if (!group) return;
    torch::NoGradGuard guard;
    for (const auto& parameter : net_->parameters()) samples::broadcast(group, parameter, root);
  }

  const samples::Arguments& arguments_;
  samples::World world_;
  samples::Store store_;
  samples::Group all_;
  Waves net_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::int64_t trained_ = 0;
};

void train(const samples::Arguments& arguments, const samples::World& world) {
  static const std::map<std::string, void (Trainer::*)()> ways = {
      {"accumulate", &Trainer::accumulate},
      {"shard", &Trainer::shard},
      {"join", &Trainer::join},
      {"pair", &Trainer::pair},
      {"evaluate", &Trainer::evaluate},
      {"meet", &Trainer::meet},
      {"reduce", &Trainer::reduce},
      {"repeat", &Trainer::repeat}};
  const auto way = ways.find(arguments.way);
  if (way == ways.end()) {
    throw std::runtime_error(
        "--way is accumulate, shard, join, pair, evaluate, meet, reduce or repeat, not \"" +
        arguments.way + "\"");
  }
  (Trainer(arguments, world).*way->second)();
}

}  // namespace loops

int main(int argc, char** argv) try {
  const auto arguments =
      samples::parse(argc, argv, loops::kBugs, {.steps = 60, .way = "accumulate"});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  loops::train(arguments, samples::world_from_environment());
  return 0;
} catch (const std::exception& error) {
  std::cerr << "loops: " << error.what() << "\n";
  return 2;
}
