// NaN or Inf planted in a random module, step and kind, over three models, in steps that are
// surveyed and in steps in which hooks rest: check, step, cause, module and operator are named.
#include <cmath>
#include <cstdio>
#include <random>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {

enum class Kind { kLog, kDivision, kSqrt, kExp, kRsqrt, kWrite, kSlope, kParameter, kBatch };
constexpr int kKinds = 9;
constexpr int kSurveyed = 64;  // cycles from the first on

struct Plant {
  int model = 0;
  int block = 0;
  int step = 0;
  Kind kind = Kind::kLog;
};

at::Tensor spoil(const at::Tensor& x, Kind kind) {
  switch (kind) {
    case Kind::kLog:
      return torch::relu(x).log();
    case Kind::kDivision:
      return x / (x - x.detach());
    case Kind::kSqrt:
      return (-x.abs() - 1).sqrt();
    case Kind::kExp:
      return (x * 1000 + 1000).exp();
    case Kind::kRsqrt:
      return x * (x - x.detach()).square().rsqrt();
    case Kind::kSlope:
      return x + (x - x.detach()).sqrt();
    case Kind::kWrite: {
      at::Tensor written = x.clone();
      written[0].fill_(std::nan(""));
      return written;
    }
    case Kind::kParameter:
    case Kind::kBatch:
      break;
  }
  return x;
}

/// Two layers of LibTorch; what is planted stands between them.
struct BlockImpl : torch::nn::Module {
  torch::nn::AnyModule first, second;
  template <class First, class Second>
  BlockImpl(First one, Second two)
      : first(register_module("first", one)), second(register_module("second", two)) {}
  at::Tensor forward(const at::Tensor& x, std::optional<Kind> planted) {
    at::Tensor between = torch::gelu(first.forward(x));
    if (planted.has_value()) between = spoil(between, *planted);
    return x + second.forward(between);
  }
};
TORCH_MODULE(Block);

struct StackImpl : torch::nn::Module {
  std::vector<Block> blocks;
  torch::nn::Linear head{nullptr};
  std::vector<std::int64_t> shape;
  explicit StackImpl(int model) {
    using namespace torch::nn;
    for (int i = 0; i < 6; ++i) {
      const std::string name = "block" + std::to_string(i);
      if (model == 0) {
        blocks.push_back(register_module(name, Block(Linear(8, 16), Linear(16, 8))));
      } else if (model == 1) {
        const auto options = [](int in, int out) { return Conv2dOptions(in, out, 3).padding(1); };
        blocks.push_back(
            register_module(name, Block(Conv2d(options(4, 6)), Conv2d(options(6, 4)))));
      } else {
        blocks.push_back(
            register_module(name, Block(LayerNorm(LayerNormOptions({8})), Linear(8, 8))));
      }
    }
    shape = model == 0   ? std::vector<std::int64_t>{5, 8}
            : model == 1 ? std::vector<std::int64_t>{2, 4, 6, 6}
                         : std::vector<std::int64_t>{2, 5, 8};
    head = register_module("head", Linear(shape.back(), 3));
  }
  at::Tensor loss(const Plant& plant, int step) {
    at::Tensor x = torch::randn(shape);
    if (step == plant.step && plant.kind == Kind::kBatch) x[0].fill_(std::nan(""));
    for (int i = 0; i < static_cast<int>(blocks.size()); ++i) {
      const bool here = i == plant.block && step == plant.step && plant.kind < Kind::kParameter;
      x = blocks[static_cast<std::size_t>(i)]->forward(
          x, here ? std::optional(plant.kind) : std::nullopt);
    }
    return head(x).square().mean();
  }
};
TORCH_MODULE(Stack);

std::string op_of(const Plant& plant) {
  const std::string layer = plant.model == 1 ? "aten::convolution" : "aten::addmm";
  switch (plant.kind) {
    case Kind::kLog:
      return "aten::log";
    case Kind::kDivision:
      return "aten::div";
    case Kind::kSqrt:
      return "aten::sqrt";
    case Kind::kExp:
      return "aten::exp";
    case Kind::kRsqrt:
      return "aten::rsqrt";
    case Kind::kWrite:
      return "aten::fill_";
    case Kind::kSlope:
      return "SqrtBackward0";
    case Kind::kParameter:
      return plant.model == 2 ? "aten::add"
                              : layer;  // a bias, beside a product of three dimensions
    case Kind::kBatch:
      return plant.model == 2 ? "aten::native_layer_norm" : layer;
  }
  return "";
}

/// `id cause module_path op` of what a plant is to be reported as.
std::string expected(const Plant& plant) {
  const std::string block = "block" + std::to_string(plant.block);
  const std::string forward = "numeric-nonfinite-forward ";
  if (plant.kind == Kind::kSlope) return "numeric-nonfinite-backward - " + block;
  if (plant.kind == Kind::kParameter) return forward + "parameter " + block + ".second";
  if (plant.kind == Kind::kBatch) return forward + "batch block0.first";
  return forward + "operator " + block;
}

/// 0 where the report says just that.
int judge(const Plant& plant) {
  const auto all = findings();
  const Finding* found = find(all, "numeric-nonfinite-forward");
  if (found == nullptr) found = find(all, "numeric-nonfinite-backward");
  if (found == nullptr) return 1;
  const std::string cause = text_fact(*found, "cause");
  const std::string got =
      found->id + " " + (cause.empty() ? "-" : cause) + " " + found->module_path;
  // Where hooks rest gradients tell the module; their graph is gone.
  const bool is_op = found->op == op_of(plant) ||
                     (plant.kind == Kind::kSlope && plant.step > kSurveyed && found->op.empty());
  if (got == expected(plant) && found->step == plant.step && is_op) return 0;
  std::fprintf(stderr, "%s %s in step %lld", got.c_str(), found->op.c_str(),
               static_cast<long long>(found->step));
  return 1;
}

int run(const Plant& plant) {
  torch::set_num_threads(1);  // as several tests run at once
  Stack net(plant.model);
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 1e-3);
  for (int step = 1; step <= plant.step + 1; ++step) {
    if (plant.kind == Kind::kParameter && step == plant.step) {
      const torch::NoGradGuard guard;
      const std::string block = "block" + std::to_string(plant.block);
      net->named_parameters()[block + ".second.bias"][1] = INFINITY;
    }
    optimizer.zero_grad();
    net->loss(plant, step).backward();
    optimizer.step();
  }
  return judge(plant);
}

/// Every second one beyond the cycles that are surveyed in full.
Plant plant_of(unsigned seed) {
  std::mt19937 random(seed);
  const int first = seed % 2 == 0 ? 1 : kSurveyed + 6;
  const int steps = seed % 2 == 0 ? 12 : 130;
  return {.model = static_cast<int>(seed % 3),
          .block = static_cast<int>(random() % 6),
          .step = first + static_cast<int>(random() % static_cast<unsigned>(steps)),
          .kind = static_cast<Kind>(random() % kKinds)};
}
}  // namespace

TEST_CASE("The module of a planted value is named in all of 50 cases") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Plant plant = plant_of(seed);
    const Outcome outcome = in_child([&] { return run(plant); });
    CAPTURE(seed, plant.model, plant.step, expected(plant), op_of(plant), outcome.said);
    CHECK(outcome.exit_code == 0);
  }
}

}  // namespace ddpscope::test
