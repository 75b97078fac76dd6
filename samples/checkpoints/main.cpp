// Learns to undo a mixing of signals with one block that is applied again and again. Its
// activations are not kept: backward computes them a second time. Several processes average each
// gradient as soon as it arrives. `--bug NAME` plants the mistake marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <utility>
#include <vector>

#include "samples/support/arguments.h"
#include "samples/support/process_group.h"

namespace checkpoints {

constexpr std::int64_t kSignals = 32;
constexpr std::int64_t kWidth = 24;
constexpr int kRounds = 3;

const samples::BugNames kBugs = {"one-per-round"};

using Segment = std::function<torch::Tensor(torch::Tensor)>;
struct SegmentHolder : torch::CustomClassHolder {
  explicit SegmentHolder(Segment run) : run(std::move(run)) {}
  Segment run;
};

/// Runs a segment without its graph, and in backward once more with it.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor input,
                               const Segment& segment) {
    context->save_for_backward({input});
    context->saved_data["segment"] =
        c10::IValue::make_capsule(c10::make_intrusive<SegmentHolder>(segment));
    return segment(input);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto held = context->saved_data["segment"].toCapsule();
    const auto input = context->get_saved_variables()[0].detach().requires_grad_();
    torch::AutoGradMode with_graph(true);
    const auto output = static_cast<const SegmentHolder&>(*held).run(input);
    torch::autograd::backward({output}, gradients);
    return {input.grad(), {}};
  }
};

struct BlockImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::relu(up(x))); }

  torch::nn::Linear up = register_module("up", torch::nn::Linear(kWidth, 2 * kWidth));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(2 * kWidth, kWidth));
};
TORCH_MODULE(Block);

struct UnmixerImpl : torch::nn::Module {
  explicit UnmixerImpl(bool each_round) : each_round(each_round) {}

  torch::Tensor forward(const torch::Tensor& mixed) {
    auto x = in(mixed);
    const int rounds = each_round ? 1 : kRounds;  // BUG one-per-round
    for (int done = 0; done < kRounds; done += rounds) {
      x = Checkpoint::apply(x, [this, rounds](torch::Tensor part) {
        for (int i = 0; i < rounds; ++i) part = block(part);
        return part;
      });
    }
    return out(x);
  }

  bool each_round;
  torch::nn::Linear in = register_module("in", torch::nn::Linear(kSignals, kWidth));
  Block block = register_module("block", Block());
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kWidth, kSignals));
};
TORCH_MODULE(Unmixer);

/// Sends each gradient on its way while backward still computes the others.
class Averager {
 public:
  Averager(std::vector<torch::Tensor> parameters, samples::Group group, int world_size)
      : parameters_(std::move(parameters)),
        sums_(parameters_.size()),
        works_(parameters_.size()),
        group_(std::move(group)),
        world_size_(world_size) {
    for (std::size_t i = 0; group_ && i < parameters_.size(); ++i) {
      parameters_[i].register_hook([this, i](const torch::Tensor& gradient) { send(i, gradient); });
    }
  }

  /// Takes what was sent in the last backward for the gradients.
  void finish() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!works_[i]) continue;
      std::exchange(works_[i], {})->wait();
      parameters_[i].mutable_grad() = sums_[i][0] / world_size_;
    }
  }

 private:
  void send(std::size_t i, const torch::Tensor& gradient) {
    if (works_[i]) works_[i]->wait();
    sums_[i] = {gradient.clone()};
    works_[i] = group_->allreduce(sums_[i]);
  }

  std::vector<torch::Tensor> parameters_;
  std::vector<std::vector<torch::Tensor>> sums_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  samples::Group group_;
  int world_size_;
};

void train(const samples::Arguments& arguments, const samples::World& world) {
  Unmixer model(arguments.has("one-per-round"));
  const auto mixing = torch::randn({kSignals, kSignals}) / 4;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  if (arguments.diagnostics) ddpscope::attach_diagnostics(model);
  Averager averager(model->parameters(), samples::connect(world), world.size);
  torch::manual_seed(arguments.seed + static_cast<std::uint64_t>(world.rank));

  for (std::int64_t step = 1; step <= arguments.steps; ++step) {
    const auto signals = torch::rand({64, kSignals});
    const auto loss = torch::mse_loss(model(signals.matmul(mixing)), signals);
    optimizer.zero_grad();
    loss.backward();
    averager.finish();
    optimizer.step();
    if (step % 20 > 0 || world.rank > 0) continue;
    std::printf("step %d: loss %.4f\n", static_cast<int>(step), loss.item<double>());
  }
}

}  // namespace checkpoints

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, checkpoints::kBugs, {.steps = 200});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  checkpoints::train(arguments, samples::world_from_environment());
  return 0;
} catch (const std::exception& error) {
  std::cerr << "checkpoints: " << error.what() << "\n";
  return 2;
}
