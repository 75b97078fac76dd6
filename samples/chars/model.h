#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace chars {

struct Sizes {
  std::int64_t vocabulary = 0;
  std::int64_t context = 32;
  std::int64_t width = 48;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
};

struct CausalAttentionImpl : torch::nn::Module {
  explicit CausalAttentionImpl(const Sizes& sizes) : heads(sizes.heads) {
    qkv = register_module("qkv", torch::nn::Linear(sizes.width, 3 * sizes.width));
    out = register_module("out", torch::nn::Linear(sizes.width, sizes.width));
    const auto ones = torch::ones({sizes.context, sizes.context}, torch::kBool);
    future = register_buffer("future", ones.triu(1));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto length = x.size(1);
    const auto parts = qkv(x).view({x.size(0), length, 3, heads, -1}).permute({2, 0, 3, 1, 4});
    const auto query = parts[0], key = parts[1], value = parts[2];
    auto scores = torch::matmul(query, key.transpose(-2, -1)) / std::sqrt(query.size(-1));
    scores = scores.masked_fill(future.slice(0, 0, length).slice(1, 0, length), -INFINITY);
    const auto mixed = torch::matmul(torch::softmax(scores, -1), value);
    return out(mixed.transpose(1, 2).reshape_as(x));
  }

  std::int64_t heads;
  torch::nn::Linear qkv{nullptr}, out{nullptr};
  torch::Tensor future;
};
TORCH_MODULE(CausalAttention);

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const Sizes& sizes) {
    const auto width = sizes.width;
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    attention = register_module("attention", CausalAttention(sizes));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
    dropout = register_module("dropout", torch::nn::Dropout(0.1));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + dropout(attention(norm1(x)));
    return x + dropout(down(torch::gelu(up(norm2(x)))));
  }

  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  CausalAttention attention{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Block);

struct Logits {
  torch::Tensor next;   ///< [windows, context, vocabulary]
  torch::Tensor after;  ///< the same for the character after the next
};

struct CharModelImpl : torch::nn::Module {
  CharModelImpl(const Sizes& sizes, std::string bug_to_plant) : bug(std::move(bug_to_plant)) {
    const auto width = sizes.width;
    tokens = add("tokens", torch::nn::Embedding(sizes.vocabulary, width));
    positions = add("positions", torch::nn::Embedding(sizes.context, width));
    torch::nn::init::normal_(tokens->weight, 0, 0.02);
    torch::nn::init::normal_(positions->weight, 0, 0.02);
    for (std::int64_t i = 0; i < sizes.layers; ++i) add_block(i, Block(sizes));
    norm = add("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    after = add("after", torch::nn::Linear(width, sizes.vocabulary));
    tie_output(sizes);
  }

  template <class Module>
  Module add(const std::string& name, Module module) {
    if (bug == "nothing-registered") return module;  // BUG
    return register_module(name, module);
  }

  void add_block(std::int64_t index, Block block) {
    if (bug == "unregistered-blocks") {
      blocks.push_back(block);  // BUG
    } else {
      blocks.push_back(add("block" + std::to_string(index), block));
    }
  }

  // The output layer has the weight of the token embedding.
  void tie_output(const Sizes& sizes) {
    output = tokens->weight;
    if (bug == "tied-twice") register_parameter("output", output);  // BUG
    if (bug == "tied-by-assignment") {
      auto linear = torch::nn::LinearOptions(sizes.width, sizes.vocabulary).bias(false);
      head = register_module("head", torch::nn::Linear(linear));
      head->weight = tokens->weight;  // BUG
      output = head->weight;
    }
  }

  Logits forward(const torch::Tensor& characters) {
    torch::Tensor x = tokens(characters);
    if (bug != "forgotten-positions") x = x + run_positions(characters.size(1));  // BUG
    for (auto& block : blocks) x = block(x);
    if (bug == "dropped-norm") {
      norm(x);  // BUG
    } else {
      x = norm(x);
    }
    return {torch::linear(x, output), after(x)};
  }

  torch::Tensor run_positions(std::int64_t length) {
    const auto indices = torch::arange(length);
    if (bug == "no-grad-positions") {
      torch::NoGradGuard guard;  // BUG
      return positions(indices);
    }
    return positions(indices);
  }

  std::string bug;
  torch::nn::Embedding tokens{nullptr}, positions{nullptr};
  std::vector<Block> blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear after{nullptr}, head{nullptr};
  torch::Tensor output;
};
TORCH_MODULE(CharModel);

}  // namespace chars
