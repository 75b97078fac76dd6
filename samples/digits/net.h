#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "samples/digits/options.h"

namespace digits {

constexpr std::int64_t kFeatures = 144;

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t in, std::int64_t out) {
    conv = register_module(
        "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(out));
  }

  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(norm(conv(x))); }

  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
};
TORCH_MODULE(Block);

struct Features {
  torch::Tensor pooled;      ///< [images, kFeatures]
  torch::Tensor aux_logits;  ///< [images, 10], from the middle of the trunk
};

struct TrunkImpl : torch::nn::Module {
  TrunkImpl(Bug bug_to_plant, int rank) : bug(bug_to_plant) {
    stem = register_module(
        "stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).stride(2).padding(1)));
    block0 = register_module("block0", Block(8, 16));
    aux_head = register_module("aux_head", torch::nn::Linear(16, 10));
    block1 = register_module("block1", Block(16, 16));
    add_mixers(rank);
    add_gain();
    if (bug == Bug::kUnsyncedBuffers) noise = register_buffer("noise", torch::rand({kFeatures}));
    embed = register_module("embed", torch::nn::Linear(kFeatures, kFeatures));
    if (bug == Bug::kTiedTwice) {
      refine = register_module("refine", embed);  // BUG
    } else {
      refine = register_module("refine", torch::nn::Linear(kFeatures, kFeatures));
    }
  }

  void add_mixers(int rank) {
    for (int i = 0; i < 2; ++i) {
      torch::nn::Conv2d mixer(torch::nn::Conv2dOptions(16, 16, 3).padding(1));
      if (bug == Bug::kUnregisteredBlocks) {
        mixers.push_back(mixer);  // BUG
      } else if (bug == Bug::kOrderByRank) {
        mixers.push_back(register_module("mixer" + std::to_string((i + rank) % 2), mixer));  // BUG
      } else {
        mixers.push_back(register_module("mixer" + std::to_string(i), mixer));
      }
    }
  }

  void add_gain() {
    if (bug == Bug::kUnregisteredTensor) {
      gain = torch::ones({16, 1, 1}, torch::requires_grad());  // BUG
    } else {
      gain = register_parameter("gain", torch::ones({16, 1, 1}));
    }
  }

  Features forward(const torch::Tensor& images) {
    torch::Tensor x = block0(torch::relu(run_stem(images)));
    const torch::Tensor aux_logits = aux_head(x.mean({2, 3}));
    x = torch::max_pool2d(block1(x), 2);
    for (auto& mixer : mixers) x = torch::relu(mixer(x));
    x = torch::adaptive_avg_pool2d(x * gain, {3, 3}).flatten(1);
    if (noise.defined()) x = x + 0.01 * noise;
    return {run_refine(torch::relu(embed(x))), aux_logits};
  }

  torch::Tensor run_stem(const torch::Tensor& images) {
    if (bug == Bug::kNoGradTrunk) {
      torch::NoGradGuard guard;  // BUG
      return stem(images);
    }
    return stem(images);
  }

  torch::Tensor run_refine(const torch::Tensor& x) {
    if (bug == Bug::kUncalledLayer) return x;  // BUG
    if (bug == Bug::kDroppedResult) {
      auto refined = refine->forward(x);
      (void)refined;
      return x;  // BUG
    }
    return torch::relu(refine(x));
  }

  Bug bug;
  torch::nn::Conv2d stem{nullptr};
  Block block0{nullptr}, block1{nullptr};
  std::vector<torch::nn::Conv2d> mixers;
  torch::Tensor gain, noise;
  torch::nn::Linear aux_head{nullptr}, embed{nullptr}, refine{nullptr};
};
TORCH_MODULE(Trunk);

struct Outputs {
  torch::Tensor logits;
  torch::Tensor aux_logits;
};

struct NetImpl : torch::nn::Module {
  explicit NetImpl(Bug bug, int rank = 0) {
    trunk = register_module("trunk", Trunk(bug, rank));
    head = register_module("head", torch::nn::Linear(kFeatures, 10));
  }

  Outputs forward(const torch::Tensor& images) {
    const Features features = trunk(images);
    return {head(features.pooled), features.aux_logits};
  }

  Trunk trunk{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Net);

}  // namespace digits
