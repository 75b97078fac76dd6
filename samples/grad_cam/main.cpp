// Grad-CAM: where the digits network looks. For each digit, a picture of it beside a map of how
// much each place spoke for the network's answer.
#include <ddpscope/hooks.h>
#include <png.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>

#include "samples/digits/trained_net.h"
#include "samples/support/arguments.h"

namespace grad_cam {

constexpr std::int64_t kPixelsPerPixel = 10;
constexpr std::int64_t kGap = 4;

struct Explained {
  torch::Tensor answers;  ///< [images], the digit that each is taken for
  torch::Tensor sure;     ///< [images], the probability of that answer
  torch::Tensor heat;     ///< [images, 1, rows, columns] of the last convolution, 0..1
};

/// Weighs each channel of the last convolution by the mean of its gradient and keeps what speaks
/// for the answer. Selvaraju et al., "Grad-CAM", ICCV 2017.
Explained explain(digits::Net& net, const torch::Tensor& images) {
  torch::Tensor activation;
  torch::Tensor gradient;
  auto& layer = net->trunk->mixers.back();
  const auto forward_hook = ddpscope::register_forward_hook(
      layer, [&](const ddpscope::ForwardCall& call) { activation = call.outputs[0].detach(); });
  const auto backward_hook =
      ddpscope::register_backward_hook(layer, [&](const ddpscope::BackwardCall& call) {
        if (call.of == ddpscope::BackwardCall::GradientsOf::kOutputs) gradient = call.gradients[0];
      });

  const auto logits = net(images).logits;
  const auto [best, answers] = logits.max(1);
  best.sum().backward();

  const auto weights = gradient.mean({2, 3}, true);
  const auto heat = torch::relu((weights * activation).sum(1, true));
  const auto sure = logits.detach().softmax(1).amax(1);
  return {answers, sure, heat / heat.amax({1, 2, 3}, true).clamp_min(1e-12)};
}

torch::Tensor enlarged(const torch::Tensor& image, std::int64_t side) {
  return torch::upsample_bilinear2d(image.unsqueeze(0), {side, side}, false).squeeze(0);
}

/// 0..1 as white, yellow, red: [1, rows, columns] to [3, rows, columns].
torch::Tensor colored(const torch::Tensor& heat) {
  return torch::cat({torch::ones_like(heat), 2 - 2 * heat, 1 - 2 * heat}).clamp(0, 1);
}

/// The digit on white paper, and on its heat map: [3, rows, columns], 0..1.
torch::Tensor picture(const torch::Tensor& image, const torch::Tensor& heat) {
  const std::int64_t side = image.size(1) * kPixelsPerPixel;
  const auto ink = ((image + 1) / 2)
                       .repeat_interleave(kPixelsPerPixel, 1)
                       .repeat_interleave(kPixelsPerPixel, 2)
                       .expand({3, side, side});
  const auto map = colored(enlarged(heat, side)) * (1 - 0.8 * ink);
  return torch::cat({1 - ink, torch::zeros({3, side, kGap}), map}, 2);
}

void write_png(const std::filesystem::path& file, const torch::Tensor& picture) {
  const auto bytes = (picture * 255).round().to(torch::kUInt8).permute({1, 2, 0}).contiguous();
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.format = PNG_FORMAT_RGB;
  png.height = static_cast<png_uint_32>(bytes.size(0));
  png.width = static_cast<png_uint_32>(bytes.size(1));
  if (png_image_write_to_file(&png, file.c_str(), 0, bytes.data_ptr(), 0, nullptr) == 0) {
    throw std::runtime_error(file.string() + ": " + png.message);
  }
}

/// The first image of each digit.
torch::Tensor one_of_each(const torch::Tensor& labels) {
  return (labels.unsqueeze(0) == torch::arange(10).unsqueeze(1)).to(torch::kUInt8).argmax(1);
}

void write_pictures(const samples::Arguments& arguments) {
  const digits::Sets sets = digits::read_sets(arguments.data);
  digits::Net net = digits::trained_net(arguments, sets.known);
  const auto images = sets.unseen.pixels.index_select(0, one_of_each(sets.unseen.labels));
  const Explained explained = explain(net, images);

  std::filesystem::create_directories(arguments.out);
  for (std::int64_t digit = 0; digit < 10; ++digit) {
    const auto file = arguments.out / ("digit-" + std::to_string(digit) + ".png");
    write_png(file, picture(images[digit], explained.heat[digit]));
    std::printf("%s  taken for %d, %.1f %% sure\n", file.c_str(),
                explained.answers[digit].item<int>(), 100 * explained.sure[digit].item<double>());
  }
  std::printf("red is what spoke for the answer\n");
}

}  // namespace grad_cam

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, {}, {.steps = 300, .out = "grad_cam"});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  grad_cam::write_pictures(arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "grad_cam: " << error.what() << "\n";
  return 2;
}
