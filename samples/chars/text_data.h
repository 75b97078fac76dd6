#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "samples/chars/text_file.h"

namespace chars {

/// Windows of a text: `data` holds [context] characters, `target` [context, 2] the one that follows
/// each of them and the one after that.
class TextData : public torch::data::Dataset<TextData> {
 public:
  TextData(const std::vector<std::filesystem::path>& paths, std::int64_t context)
      : context_(context) {
    std::string text;
    for (const auto& path : paths) text += read_text(path);
    if (static_cast<std::int64_t>(text.size()) < context + 2) {
      throw std::runtime_error("the text holds " + std::to_string(text.size()) +
                               " characters, training needs " + std::to_string(context + 2));
    }
    characters_ = torch::empty({static_cast<std::int64_t>(text.size())}, torch::kInt64);
    encode(text);
  }

  torch::data::Example<> get(std::size_t index) override {
    const auto begin = static_cast<std::int64_t>(index) * context_;
    const auto window = [&](std::int64_t ahead) {
      return characters_.narrow(0, begin + ahead, context_);
    };
    return {window(0), torch::stack({window(1), window(2)}, 1)};
  }

  torch::optional<std::size_t> size() const override {
    return static_cast<std::size_t>((characters_.size(0) - 2) / context_);
  }

  std::int64_t vocabulary() const { return static_cast<std::int64_t>(alphabet_.size()); }
  /// The token of a character, 0 for one that the text does not hold.
  std::int64_t token(char character) const {
    const auto at = alphabet_.find(character);
    return at == std::string::npos ? 0 : static_cast<std::int64_t>(at);
  }
  char character(std::int64_t token) const { return alphabet_.at(static_cast<std::size_t>(token)); }

 private:
  void encode(const std::string& text) {
    alphabet_ = text;
    std::sort(alphabet_.begin(), alphabet_.end());
    alphabet_.erase(std::unique(alphabet_.begin(), alphabet_.end()), alphabet_.end());
    std::transform(text.begin(), text.end(), characters_.data_ptr<std::int64_t>(),
                   [this](char c) { return token(c); });
  }

  std::int64_t context_;
  std::string alphabet_;
  torch::Tensor characters_;
};

}  // namespace chars
