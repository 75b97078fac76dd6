// Learns which of two noisy signals stem from the same pattern: one network with gates reads both,
// in several processes that share their buffers and gradients. `--bug NAME` plants one of the
// mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <string>

#include "samples/support/arguments.h"
#include "samples/support/process_group.h"

namespace gates {

constexpr std::int64_t kPatterns = 5;
constexpr std::int64_t kPairs = 32;
constexpr std::int64_t kBatches = 8;  // of an epoch
constexpr std::int64_t kLength = 16;
constexpr std::int64_t kWidth = 24;

const samples::BugNames kBugs = {
    "write-into-slice", "write-into-chunk",   "write-into-unbind",        "relu-on-sigmoid",
    "weight-halved",    "init-without-guard", "buffers-between-forwards", "rest-of-epoch",
    "noise-elsewhere",  "few-pairs",          "guard-without-name"};

struct EncoderImpl : torch::nn::Module {
  explicit EncoderImpl(std::string bug) : bug(std::move(bug)) {
    in = register_module("in", torch::nn::Linear(kLength, kWidth));
    norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
    mix = register_module("mix", torch::nn::Linear(kWidth, 2 * kWidth));
    out = register_module("out", torch::nn::Linear(kWidth, 8));
  }

  torch::Tensor forward(const torch::Tensor& signals) {
    const auto hidden = torch::relu(norm(in(signals)));  // norm
    const auto open = gated(mix(hidden));
    return of_length_one(out(open));  // out
  }

  torch::Tensor gated(const torch::Tensor& mixed) const {
    const auto halves = mixed.chunk(2, 1);  // chunk
    auto values = halves[0];
    if (bug == "write-into-chunk") values.mul_(2);                // BUG write-into-chunk
    auto gate = torch::sigmoid(halves[1]);                        // sigmoid
    if (bug == "relu-on-sigmoid") torch::relu_(gate);             // BUG relu-on-sigmoid
    if (bug == "write-into-slice") gate.slice(1, 0, 2).fill_(1);  // BUG write-into-slice
    return values * gate;
  }

  torch::Tensor of_length_one(const torch::Tensor& codes) const {
    if (bug != "write-into-unbind") return codes / codes.norm(2, 1, true);
    for (auto& code : codes.unbind(0)) {  // unbind
      code.div_(code.norm());             // BUG write-into-unbind
    }
    return codes;
  }

  std::string bug;
  torch::nn::Linear in{nullptr}, mix{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Encoder);

class Trainer {
 public:
  Trainer(const samples::Arguments& arguments, const samples::World& world)
      : arguments_(arguments),
        world_(world),
        group_(samples::connect(world)),
        encoder_(arguments.bug),
        optimizer_(encoder_->parameters(), torch::optim::AdamOptions(5e-3)) {
    if (arguments.diagnostics) ddpscope::attach_diagnostics(encoder_);
    open_gates();
    torch::manual_seed(arguments.seed + static_cast<std::uint64_t>(world.rank));
  }

  void train() {
    for (std::int64_t step = 1; step <= arguments_.steps; ++step) {
      const double loss = train_step(pairs_at(step));
      if (step % 20 > 0 || world_.rank > 0) continue;
      std::printf("step %d: loss %.4f\n", static_cast<int>(step), loss);
    }
  }

 private:
  void open_gates() {
    std::optional<torch::NoGradGuard> guard;
    const bool has_name = !arguments_.has("guard-without-name");
    if (!has_name) torch::NoGradGuard();                                     // BUG
    if (has_name && !arguments_.has("init-without-guard")) guard.emplace();  // BUG
    encoder_->mix->bias.fill_(1);                                            // fill
  }

  /// The share of the last process has one pair more than its batches take.
  std::int64_t pairs_at(std::int64_t step) const {
    if (arguments_.has("few-pairs")) return kPairs / 4;  // BUG
    const bool is_rest = world_.rank == world_.size - 1 && step % kBatches == 0;
    return is_rest && arguments_.has("rest-of-epoch") ? 1 : kPairs;  // BUG
  }

  double train_step(std::int64_t pairs) {
    const auto left_patterns = torch::randint(kPatterns, {pairs});
    const auto right_patterns =
        torch::where(torch::rand({pairs}) < 0.5, left_patterns, torch::randint(kPatterns, {pairs}));
    share_buffers();
    const auto left = encoder_(signals_of(left_patterns));
    if (arguments_.has("buffers-between-forwards")) share_buffers();  // BUG
    const auto right = encoder_(signals_of(right_patterns));
    const auto loss = loss_of(left, right, left_patterns.eq(right_patterns));
    if (arguments_.has("weight-halved")) {
      encoder_->out->weight.data().mul_(0.5);  // BUG weight-halved
    }
    optimizer_.zero_grad();
    loss.backward();
    average_gradients();
    optimizer_.step();
    return loss.item<double>();
  }

  torch::Tensor signals_of(const torch::Tensor& patterns) const {
    const auto device = arguments_.has("noise-elsewhere") ? torch::kMeta : torch::kCPU;  // BUG
    const auto noise = torch::randn({patterns.size(0), kLength}, device);
    return patterns_.index_select(0, patterns) + 0.3 * noise;
  }

  /// Pulls the codes of one pattern together and pushes those of two apart.
  static torch::Tensor loss_of(const torch::Tensor& left, const torch::Tensor& right,
                               const torch::Tensor& same) {
    const auto distance = ((left - right).square().sum(1) + 1e-6).sqrt();
    return torch::where(same, distance.square(), torch::relu(1 - distance).square()).mean();
  }

  /// Every process takes the buffers of the first.
  void share_buffers() {
    torch::NoGradGuard guard;
    for (auto& buffer : encoder_->buffers()) {
      const auto sent = buffer.clone();
      if (group_) samples::broadcast(group_, sent);
      buffer.copy_(sent);  // copy
    }
  }

  void average_gradients() {
    if (!group_) return;
    for (const auto& parameter : encoder_->parameters()) {
      samples::add_over_ranks(group_, parameter.grad());
      parameter.grad().div_(world_.size);
    }
  }

  samples::Arguments arguments_;
  samples::World world_;
  samples::Group group_;
  Encoder encoder_;
  torch::optim::Adam optimizer_;
  torch::Tensor patterns_ = torch::randn({kPatterns, kLength});
};

}  // namespace gates

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, gates::kBugs, {.steps = 200});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  gates::Trainer(arguments, samples::world_from_environment()).train();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "gates: " << error.what() << "\n";
  return 2;
}
