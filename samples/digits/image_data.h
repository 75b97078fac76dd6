#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "samples/digits/idx_file.h"

namespace digits {

/// The images of an idx data set, scaled to -1..1.
class ImageData : public torch::data::Dataset<ImageData> {
 public:
  explicit ImageData(const std::filesystem::path& folder) {
    ImageSet set = read_image_set(folder);
    const auto count = static_cast<std::int64_t>(set.labels.size());
    images_ = torch::from_blob(set.pixels.data(), {count, 1, set.rows, set.columns}, torch::kUInt8)
                  .to(torch::kFloat32)
                  .div_(127.5)
                  .sub_(1);
    labels_ = torch::from_blob(set.labels.data(), {count}, torch::kUInt8).to(torch::kInt64);
  }

  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<std::int64_t>(index);
    return {images_[i], labels_[i]};
  }

  torch::optional<std::size_t> size() const override {
    return static_cast<std::size_t>(labels_.size(0));
  }

  const torch::Tensor& images() const { return images_; }
  const torch::Tensor& labels() const { return labels_; }

 private:
  torch::Tensor images_;
  torch::Tensor labels_;
};

}  // namespace digits
