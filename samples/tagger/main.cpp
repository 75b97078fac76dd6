// Tags the notes of melodies of different length, which lie padded in a batch. Processes average
// their gradients, and a note weighs as much on each of them: `--way NAME` chooses how. `--bug
// NAME` plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>

#include "samples/support/arguments.h"
#include "samples/support/averaging.h"
#include "samples/support/dump.h"
#include "samples/support/process_group.h"

namespace tagger {
namespace F = torch::nn::functional;

constexpr std::int64_t kMelodies = 8;
constexpr std::int64_t kLongest = 24;
constexpr std::int64_t kNotes = 16;
constexpr std::int64_t kTags = 5;
constexpr std::int64_t kNoTag = -100;  // cross_entropy leaves it out

const samples::BugNames kBugs = {"mean-per-rank", "spoilt-batch"};

struct Melodies {
  torch::Tensor notes;     // [N, T]
  torch::Tensor loudness;  // [N, T, 1]
  torch::Tensor tags;      // [N, T], kNoTag behind the end
};

/// The first process has long melodies and the others have short ones, unless they are `alike`.
Melodies draw(const samples::World& world, bool alike) {
  const std::int64_t length = alike ? 12 : world.rank == 0 ? 20 : 3;
  const auto notes = torch::randint(kNotes, {kMelodies, kLongest}, torch::kLong);
  const auto before = torch::roll(notes, 1, 1);
  const auto ends = torch::randint(length, length + 5, {kMelodies, 1});
  auto tags = (notes + before).remainder(kTags);
  if (alike) {
    tags.slice(1, length).fill_(kNoTag);
  } else {
    tags.masked_fill_(torch::arange(kLongest).unsqueeze(0).ge(ends), kNoTag);
  }
  return {notes, 1 + 0.1 * torch::randn({kMelodies, kLongest, 1}), tags};
}

struct TaggerImpl : torch::nn::Module {
  torch::Tensor forward(const Melodies& melodies) {
    const auto now = note(melodies.notes) * melodies.loudness;
    const auto hidden = torch::tanh(middle(torch::cat({now, torch::roll(now, 1, 1)}, 2)));
    return tag(hidden).transpose(1, 2);
  }
  torch::nn::Embedding note = register_module("note", torch::nn::Embedding(kNotes, 12));
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(24, 32));
  torch::nn::Linear tag = register_module("tag", torch::nn::Linear(32, kTags));
};
TORCH_MODULE(Tagger);

class Trainer {
 public:
  Trainer(const samples::Arguments& arguments, const samples::World& world)
      : arguments_(arguments), world_(world), all_(samples::connect(world)) {
    if (arguments.diagnostics) ddpscope::attach_diagnostics(net_);
    samples::broadcast_parameters(all_, *net_);
    torch::manual_seed(arguments.seed + 1 + static_cast<std::uint64_t>(world.rank));
  }

  void run() {
    torch::optim::SGD optimizer(net_->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      Melodies melodies = draw(world_, arguments_.way == "equal");
      if (arguments_.has("spoilt-batch") && step == 6 && world_.rank == 1) {
        melodies.loudness[2][0] = std::numeric_limits<float>::quiet_NaN();  // BUG spoilt-batch
      }
      optimizer.zero_grad();
      const auto loss = loss_of(net_(melodies), melodies.tags);
      loss.backward();
      samples::average_gradients(all_, *net_);
      optimizer.step();
      losses_.push_back(loss.item<float>());
      const double unseen = evaluate();
      if (step % 20 > 0) continue;
      std::printf("step %d: loss %.4f, of unseen melodies %.4f\n", static_cast<int>(step),
                  losses_.back(), unseen);
    }
  }

  void finish() {
    if (!arguments_.dump.empty()) samples::dump(arguments_.dump, world_.rank, *net_, losses_);
  }

 private:
  /// Each process looks at melodies of its own length.
  double evaluate() {
    torch::NoGradGuard guard;
    const Melodies melodies = draw(world_, /*alike=*/false);
    return F::cross_entropy(net_(melodies), melodies.tags).item<double>();
  }

  /// Averaged over the processes, the mean over the tags of all of them.
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& tags) {
    if (arguments_.has("mean-per-rank")) {
      return F::cross_entropy(scores, tags);  // BUG mean-per-rank
    }
    if (arguments_.way == "equal") return F::cross_entropy(scores, tags);
    const auto own = tags.ne(kNoTag).sum().to(torch::kFloat);
    const auto share = all_ ? world_.size / sum_over_ranks(own) : 1 / own;
    if (arguments_.way == "scaled") return F::cross_entropy(scores, tags) * (own * share);
    return F::cross_entropy(scores, tags, F::CrossEntropyFuncOptions().reduction(torch::kSum)) *
           share;
  }

  torch::Tensor sum_over_ranks(const torch::Tensor& number) {
    torch::Tensor sum = number.clone().reshape({1});
    samples::add_over_ranks(all_, sum);
    return sum.squeeze();
  }

  const samples::Arguments& arguments_;
  samples::World world_;
  samples::Group all_;
  std::vector<float> losses_;
  Tagger net_;
};

}  // namespace tagger

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, tagger::kBugs, {.steps = 200, .way = "summed"});
  if (arguments.only_lists) return 0;
  if (arguments.way != "summed" && arguments.way != "scaled" && arguments.way != "equal") {
    throw std::runtime_error("--way is summed, scaled or equal, not \"" + arguments.way + "\"");
  }
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  tagger::Trainer trainer(arguments, samples::world_from_environment());
  trainer.run();
  trainer.finish();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "tagger: " << error.what() << "\n";
  return 2;
}
