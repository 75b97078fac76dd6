// Learns features of points on a ring so that two noisy views of one point are alike and views of
// other points are not, also of those that other processes see: features are gathered from all of
// them. `--way followed` gathers so that autograd follows. `--bug NAME` plants the mistake marked
// BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>

#include "samples/support/arguments.h"
#include "samples/support/averaging.h"
#include "samples/support/dump.h"
#include "samples/support/process_group.h"

namespace views {
namespace F = torch::nn::functional;

constexpr std::int64_t kPoints = 16;
constexpr double kSharpness = 5;

const samples::BugNames kBugs = {"rows-not-put-back"};

std::vector<torch::Tensor> gather(const samples::Group& group, const torch::Tensor& own) {
  std::vector<std::vector<torch::Tensor>> all(1);
  for (int rank = 0; rank < group->getSize(); ++rank) all[0].push_back(torch::empty_like(own));
  std::vector<torch::Tensor> one = {own};
  group->allgather(all, one)->wait();
  return all[0];
}

/// Its backward adds what all processes have for the rows of this one.
struct FollowedGather : torch::autograd::Function<FollowedGather> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& own,
                               const samples::Group* group) {
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    context->saved_data["rows"] = own.size(0);
    return torch::cat(gather(*group, own.contiguous()));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto& group =
        *reinterpret_cast<const samples::Group*>(context->saved_data["group"].toInt());
    const std::int64_t rows = context->saved_data["rows"].toInt();
    auto sum = gradients[0].contiguous().clone();
    samples::add_over_ranks(group, sum);
    return {sum.slice(0, group->getRank() * rows, (group->getRank() + 1) * rows), {}};
  }
};

torch::Tensor draw_view(const torch::Tensor& angle) {
  const auto seen = angle + 0.1 * torch::randn_like(angle);
  return torch::stack({torch::cos(seen), torch::sin(seen)}, 1) *
         (1 + 0.2 * torch::randn({kPoints, 1}));
}

class Trainer {
 public:
  Trainer(const samples::Arguments& arguments, const samples::World& world)
      : arguments_(arguments), world_(world), all_(samples::connect(world)) {
    if (arguments.diagnostics) ddpscope::attach_diagnostics(net_);
    samples::broadcast_parameters(all_, *net_);
    torch::manual_seed(arguments.seed + 1 + static_cast<std::uint64_t>(world.rank));
  }

  void run() {
    torch::optim::SGD optimizer(net_->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      const auto angle = 2 * M_PI * torch::rand({kPoints});
      optimizer.zero_grad();
      const auto loss = loss_of(features(draw_view(angle)), features(draw_view(angle)));
      loss.backward();
      samples::average_gradients(all_, *net_);
      optimizer.step();
      losses_.push_back(loss.item<float>());
      if (step % 20 > 0) continue;
      std::printf("step %d: loss %.4f\n", static_cast<int>(step), losses_.back());
    }
  }

  void finish() {
    if (!arguments_.dump.empty()) samples::dump(arguments_.dump, world_.rank, *net_, losses_);
  }

 private:
  torch::Tensor features(const torch::Tensor& view) {
    return F::normalize(net_->forward(view), F::NormalizeFuncOptions().dim(1));
  }

  /// The second view of each of this process's points among those of all processes.
  torch::Tensor loss_of(const torch::Tensor& first, const torch::Tensor& second) {
    const auto labels = torch::arange(kPoints) + kPoints * world_.rank;
    const auto alike = kSharpness * first.matmul(gathered(second).t());
    return F::cross_entropy(alike, labels);
  }

  torch::Tensor gathered(const torch::Tensor& own) {
    if (!all_) return own;
    if (arguments_.way == "followed") return FollowedGather::apply(own, &all_);
    auto all = gather(all_, own.detach().contiguous());
    const auto rank = static_cast<std::size_t>(world_.rank);
    if (!arguments_.has("rows-not-put-back")) all[rank] = own;  // BUG rows-not-put-back
    return torch::cat(all);
  }

  const samples::Arguments& arguments_;
  samples::World world_;
  samples::Group all_;
  std::vector<float> losses_;
  torch::nn::Sequential net_{torch::nn::Linear(2, 64), torch::nn::Tanh(), torch::nn::Linear(64, 8)};
};

}  // namespace views

int main(int argc, char** argv) try {
  const auto arguments =
      samples::parse(argc, argv, views::kBugs, {.steps = 200, .way = "put-back"});
  if (arguments.only_lists) return 0;
  if (arguments.way != "put-back" && arguments.way != "followed") {
    throw std::runtime_error("--way is put-back or followed, not \"" + arguments.way + "\"");
  }
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  views::Trainer trainer(arguments, samples::world_from_environment());
  trainer.run();
  trainer.finish();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "views: " << error.what() << "\n";
  return 2;
}
