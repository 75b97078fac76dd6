// NaN or Inf planted in a random module, step and kind, over three models; and the share of them of
// which module, step and cause are named.
#include <cmath>
#include <random>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {

enum class Kind { kLog, kDivision, kSqrt, kExp, kWrite, kParameter };
constexpr int kKinds = 6;

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
    case Kind::kWrite: {
      at::Tensor written = x.clone();
      written[0].fill_(std::nan(""));
      return written;
    }
    case Kind::kParameter:
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
    for (int i = 0; i < static_cast<int>(blocks.size()); ++i) {
      const bool here = i == plant.block && step == plant.step && plant.kind != Kind::kParameter;
      x = blocks[static_cast<std::size_t>(i)]->forward(
          x, here ? std::optional(plant.kind) : std::nullopt);
    }
    return head(x).square().mean();
  }
};
TORCH_MODULE(Stack);

bool is_named(const Plant& plant) {
  Stack net(plant.model);
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 1e-3);
  const std::string block = "block" + std::to_string(plant.block);
  for (int step = 1; step <= plant.step + 1; ++step) {
    if (plant.kind == Kind::kParameter && step == plant.step) {
      const torch::NoGradGuard guard;
      net->named_parameters()[block + ".second.bias"][1] = INFINITY;
    }
    optimizer.zero_grad();
    net->loss(plant, step).backward();
    optimizer.step();
  }
  const auto all = findings();
  const Finding* found = find(all, "numeric-nonfinite-forward");
  if (found == nullptr || found->step != plant.step) return false;
  const bool of_parameter = plant.kind == Kind::kParameter;
  return found->module_path == (of_parameter ? block + ".second" : block) &&
         text_fact(*found, "cause") == (of_parameter ? "parameter" : "operator");
}

Plant plant_of(unsigned seed) {
  std::mt19937 random(seed);
  return {.model = static_cast<int>(seed % 3),
          .block = static_cast<int>(random() % 6),
          .step = static_cast<int>(1 + random() % 12),
          .kind = static_cast<Kind>(random() % kKinds)};
}
}  // namespace

TEST_CASE("The module of a planted value is named in 98 of 100 cases") {
  constexpr unsigned kSeeds = 50;
  unsigned named = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const Plant plant = plant_of(seed);
    const bool is = in_child([&] { return is_named(plant) ? 0 : 1; }).exit_code == 0;
    named += is;
    if (!is) {
      WARN("not named: model " << plant.model << " block " << plant.block << " step " << plant.step
                               << " kind " << static_cast<int>(plant.kind));
    }
  }
  CHECK(named * 100 >= kSeeds * 98);
}

}  // namespace ddpscope::test
