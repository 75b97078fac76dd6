// Trains a TorchScript module, put together in C++, to tell points inside a ring from points
// outside. `--bug NAME` plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "samples/support/arguments.h"

namespace jit {

const samples::BugNames kBugs = {"forgotten-head", "skipped-hidden", "no-zero-grad"};

torch::jit::Module linear(std::int64_t in, std::int64_t out) {
  torch::jit::Module layer("Linear");
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const auto drawn = [bound](at::IntArrayRef shape) {
    return torch::empty(shape).uniform_(-bound, bound).requires_grad_();
  };
  layer.register_parameter("weight", drawn({out, in}), /*is_buffer=*/false);
  layer.register_parameter("bias", drawn({out}), /*is_buffer=*/false);
  layer.define(R"(
    def forward(self, x):
      return torch.addmm(self.bias, x, self.weight.t())
  )");
  return layer;
}

torch::jit::Module ring_net(const std::string& bug) {
  torch::jit::Module net("RingNet");
  net.register_module("stem", linear(2, 32));
  net.register_module("hidden", linear(32, 32));
  net.register_module("head", linear(32, 1));
  if (bug == "skipped-hidden") {
    net.define(R"(
      def forward(self, x):
        x = torch.tanh(self.stem.forward(x))
        return self.head.forward(x)
    )");  // BUG
  } else {
    net.define(R"(
      def forward(self, x):
        x = torch.tanh(self.stem.forward(x))
        x = torch.tanh(self.hidden.forward(x))
        return self.head.forward(x)
    )");
  }
  return net;
}

std::vector<torch::Tensor> trained_parameters(const torch::jit::Module& net,
                                              const std::string& bug) {
  std::vector<torch::Tensor> parameters;
  for (const auto& parameter : net.named_parameters()) {
    if (bug == "forgotten-head" && parameter.name.starts_with("head")) continue;  // BUG
    parameters.push_back(parameter.value);
  }
  return parameters;
}

void train(const samples::Arguments& arguments) {
  torch::manual_seed(arguments.seed);
  const auto points = torch::rand({512, 2}) * 2 - 1;
  const auto radius = points.norm(2, 1, /*keepdim=*/true);
  const auto inside = ((radius > 0.4) & (radius < 0.9)).to(torch::kFloat32);

  torch::jit::Module net = ring_net(arguments.bug);
  if (arguments.diagnostics) ddpscope::attach_diagnostics(net);
  torch::optim::Adam optimizer(trained_parameters(net, arguments.bug), 0.02);
  net.train();
  for (std::int64_t step = 1; step <= arguments.steps; ++step) {
    if (!arguments.has("no-zero-grad")) optimizer.zero_grad();  // BUG
    const auto logits = net.forward({points}).toTensor();
    const auto loss = torch::binary_cross_entropy_with_logits(logits, inside);
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) {
      const auto right = ((logits > 0) == (inside > 0)).to(torch::kFloat32).mean();
      std::printf("step %d: loss %.3f, accuracy %.1f %%\n", static_cast<int>(step),
                  loss.item<double>(), 100 * right.item<double>());
    }
  }
}

}  // namespace jit

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, jit::kBugs, {.steps = 100});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  jit::train(arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "jit: " << error.what() << "\n";
  return 2;
}
