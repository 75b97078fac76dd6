#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace digits {

/// Grey images of one size, one byte per pixel, row by row, and the digit that each shows.
struct ImageSet {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
};

/// Reads train-images-idx3-ubyte and train-labels-idx1-ubyte from `folder`.
/// @throws std::runtime_error naming the file and what is wrong with it.
ImageSet read_image_set(const std::filesystem::path& folder);

/// Writes both files; `folder` is created if needed.
/// @throws std::runtime_error naming the file that could not be written.
void write_image_set(const std::filesystem::path& folder, const ImageSet& set);

}  // namespace digits
