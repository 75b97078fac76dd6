#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>

#include "samples/digits/image_data.h"
#include "samples/digits/net.h"
#include "samples/support/arguments.h"
#include "samples/support/terminal.h"

namespace digits {

struct Images {
  torch::Tensor pixels;  ///< [images, 1, rows, columns], -1..1
  torch::Tensor labels;  ///< [images]
};

/// Four fifths to learn from, and a fifth that nothing was learned from.
struct Sets {
  Images known;
  Images unseen;
};

inline Sets read_sets(const std::filesystem::path& folder) {
  const ImageData data(folder);
  const std::int64_t all = data.labels().size(0);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return Images{data.images().slice(0, begin, end), data.labels().slice(0, begin, end)};
  };
  return {part(0, all * 4 / 5), part(all * 4 / 5, all)};
}

inline void train(Net& net, const Images& images, std::int64_t steps) {
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(3e-3));
  samples::Progress progress("training", steps);
  net->train();
  for (std::int64_t step = 1; step <= steps; ++step) {
    const auto chosen = torch::randint(images.labels.size(0), {64}, torch::kInt64);
    const auto labels = images.labels.index_select(0, chosen);
    const Outputs outputs = net(images.pixels.index_select(0, chosen));
    const auto loss = torch::cross_entropy_loss(outputs.logits, labels) +
                      0.3 * torch::cross_entropy_loss(outputs.aux_logits, labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    progress.show(step);
  }
}

/// The network of the sample `digits`, ready to be asked. It is read from the file of `--model`;
/// where there is none yet it is trained, and saved there.
inline Net trained_net(const samples::Arguments& arguments, const Images& images) {
  Net net(Bug::kNone);
  if (!arguments.model.empty() && std::filesystem::exists(arguments.model)) {
    torch::load(net, arguments.model.string());
  } else {
    train(net, images, arguments.steps);
    if (!arguments.model.empty()) torch::save(net, arguments.model.string());
  }
  net->eval();
  return net;
}

/// How many of 100 are answered as they are labelled.
inline double percent_right(const torch::Tensor& answers, const torch::Tensor& labels) {
  return 100 * answers.eq(labels).to(torch::kFloat64).mean().item<double>();
}

}  // namespace digits
