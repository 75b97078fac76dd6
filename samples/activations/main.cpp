// What the layers of a network give while it learns to tell two spirals apart: a table that is
// redrawn in place on a terminal and printed a few times elsewhere.
#include <ddpscope/hooks.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "samples/support/arguments.h"
#include "samples/support/terminal.h"

namespace activations {

constexpr std::int64_t kWidth = 32;
constexpr std::int64_t kPoints = 256;

/// What one layer gave for one batch.
struct Row {
  std::string path;
  std::string type;
  double mean = 0;
  double deviation = 0;
  double zeros = 0;                 ///< share of the outputs
  std::optional<double> saturated;  ///< share of the outputs or units that pass no gradient on
};

double share(const torch::Tensor& is_so) { return is_so.to(torch::kFloat32).mean().item<double>(); }

/// tanh and sigmoid: outputs within 1 % of an end of the range; relu: units that are 0 for all
/// points of the batch.
std::optional<double> saturated(const torch::nn::Module& layer, const torch::Tensor& output) {
  if (layer.as<torch::nn::Tanh>()) return share(output.abs() > 0.98);
  if (layer.as<torch::nn::Sigmoid>()) return share((output - 0.5).abs() > 0.49);
  if (layer.as<torch::nn::ReLU>()) return share((output == 0).all(0));
  return std::nullopt;
}

/// Collects a row from each layer whose forward runs while it lives.
class Observation {
 public:
  explicit Observation(const torch::nn::Sequential& net)
      : hook_(ddpscope::register_module_hook(
            net, {.after = [this](const ddpscope::ForwardCall& call) { add(call); }})) {}

  const std::vector<Row>& rows() const { return rows_; }

 private:
  void add(const ddpscope::ForwardCall& call) {
    if (!call.module.children().empty()) return;
    const torch::NoGradGuard no_gradients;
    const torch::Tensor& output = call.outputs[0];
    rows_.push_back({.path = std::string(call.path),
                     .type = std::string(call.type),
                     .mean = output.mean().item<double>(),
                     .deviation = output.std().item<double>(),
                     .zeros = share(output == 0),
                     .saturated = saturated(call.module, output)});
  }

  std::vector<Row> rows_;
  ddpscope::HookHandle hook_;
};

/// Draws over what it drew before where that is a terminal.
class Display {
 public:
  explicit Display(std::int64_t steps) : steps_(steps) {}

  bool is_due(std::int64_t step) const {
    const std::int64_t drawings = terminal_ ? 100 : 4;
    return step == 1 || step == steps_ || step % std::max(steps_ / drawings, std::int64_t{1}) == 0;
  }

  void draw(std::int64_t step, double loss, const std::vector<Row>& rows) {
    if (lines_ > 0 && terminal_) std::printf("\033[%dA", lines_);
    lines_ = 0;
    line("step %d of %d, loss %.4f", static_cast<int>(step), static_cast<int>(steps_), loss);
    line("%-9s %-28s %8s %10s %8s %10s", "layer", "type", "mean", "deviation", "zeros",
         "saturated");
    for (const Row& row : rows) {
      line("%-9s %-28s %8.3f %10.3f %6.1f %% %10s", row.path.c_str(), row.type.c_str(), row.mean,
           row.deviation, 100 * row.zeros, percent(row.saturated).c_str());
    }
    line("%s", terminal_ ? samples::bar(step, steps_).c_str() : "");
    std::fflush(stdout);
  }

 private:
  template <class... Values>
  void line(const char* format, Values... values) {
    std::printf(format, values...);
    std::puts(terminal_ ? "\033[K" : "");
    ++lines_;
  }

  static std::string percent(std::optional<double> share) {
    if (!share) return "-";
    char text[16];
    std::snprintf(text, sizeof text, "%.1f %%", 100 * *share);
    return text;
  }

  std::int64_t steps_;
  bool terminal_ = samples::is_terminal(stdout);
  int lines_ = 0;
};

torch::nn::Sequential network() {
  using torch::nn::Linear;
  return torch::nn::Sequential({{"in", Linear(2, kWidth)},
                                {"tanh", torch::nn::Tanh()},
                                {"hidden", Linear(kWidth, kWidth)},
                                {"norm", torch::nn::BatchNorm1d(kWidth)},
                                {"relu", torch::nn::ReLU()},
                                {"out", Linear(kWidth, 1)},
                                {"sigmoid", torch::nn::Sigmoid()}});
}

/// Points on two spirals that turn once around each other, and which of the two each is on.
std::pair<torch::Tensor, torch::Tensor> draw_points() {
  const auto spiral = torch::randint(2, {kPoints, 1}).to(torch::kFloat32);
  const auto turn = torch::rand({kPoints, 1}).sqrt();
  const auto angle = 2 * std::numbers::pi * turn + std::numbers::pi * spiral;
  const auto points = torch::cat({turn * angle.cos(), turn * angle.sin()}, 1);
  return {3 * points + 0.05 * torch::randn({kPoints, 2}), spiral};
}

void train(const samples::Arguments& arguments) {
  auto net = network();
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  Display display(arguments.steps);
  for (std::int64_t step = 1; step <= arguments.steps; ++step) {
    std::optional<Observation> observation;
    if (display.is_due(step)) observation.emplace(net);
    const auto [points, spirals] = draw_points();
    const auto loss = torch::binary_cross_entropy(net->forward(points), spirals);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (observation) display.draw(step, loss.item<double>(), observation->rows());
  }
}

}  // namespace activations

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, {}, {.steps = 600});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  activations::train(arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "activations: " << error.what() << "\n";
  return 2;
}
