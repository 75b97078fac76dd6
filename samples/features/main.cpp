// What a network has learned is of use without its last layers: the features in the middle of the
// digits network, taken by one hook, tell digits apart by the nearest mean of a class.
#include <ddpscope/hooks.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "samples/digits/trained_net.h"
#include "samples/support/arguments.h"

namespace features {

/// Of each unseen vector, the digit whose known vectors have the nearest mean.
torch::Tensor nearest_mean(const torch::Tensor& known, const torch::Tensor& labels,
                           const torch::Tensor& unseen) {
  const auto is_digit = torch::one_hot(labels, 10).to(torch::kFloat32);
  const auto means = is_digit.t().mm(known.flatten(1)) / is_digit.sum(0).unsqueeze(1);
  return torch::cdist(unseen.flatten(1), means).argmin(1);
}

void compare(const samples::Arguments& arguments) {
  const auto [known, unseen] = digits::read_sets(arguments.data);
  digits::Net net = digits::trained_net(arguments, known);
  const torch::NoGradGuard no_gradients;

  torch::Tensor features;
  const auto hook = ddpscope::register_forward_hook(
      net->trunk->mixers.back(),
      [&](const ddpscope::ForwardCall& call) { features = call.outputs[0]; });

  net(known.pixels);
  const auto known_features = features;
  const auto answers = net(unseen.pixels).logits.argmax(1);

  const auto print = [&labels = unseen.labels](const char* by, const torch::Tensor& found) {
    std::printf("  %-32s %5.1f %% right\n", by, digits::percent_right(found, labels));
  };
  std::printf("%d images are known, %d are told apart by\n", static_cast<int>(known.labels.size(0)),
              static_cast<int>(unseen.labels.size(0)));
  print("nearest mean of the pixels", nearest_mean(known.pixels, known.labels, unseen.pixels));
  print("nearest mean of trunk.mixer1", nearest_mean(known_features, known.labels, features));
  print("the network itself", answers);
}

}  // namespace features

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, {}, {.steps = 200});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  features::compare(arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "features: " << error.what() << "\n";
  return 2;
}
