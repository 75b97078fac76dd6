#include "samples/digits/idx_file.h"

#include <array>
#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string>

namespace digits {
namespace {

using std::filesystem::path;

constexpr std::uint32_t kImagesMagic = 0x803;
constexpr std::uint32_t kLabelsMagic = 0x801;
constexpr std::uint32_t kMaxSide = 1024;
constexpr const char* kImagesName = "train-images-idx3-ubyte";
constexpr const char* kLabelsName = "train-labels-idx1-ubyte";

[[noreturn]] void refuse(const path& file, const std::string& reason) {
  throw std::runtime_error(file.string() + ": " + reason);
}

std::uint32_t read_number(std::istream& in, const path& file) {
  std::array<char, 4> bytes{};
  if (!in.read(bytes.data(), bytes.size())) refuse(file, "ends inside its header");
  std::uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

void expect_magic(std::istream& in, const path& file, std::uint32_t expected) {
  const std::uint32_t magic = read_number(in, file);
  if (magic != expected) {
    refuse(file, "its magic number is " + std::to_string(magic) +
                     ", an idx file of this kind has " + std::to_string(expected));
  }
}

std::ifstream open_to_read(const path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(file, "cannot be opened; ddpscope_draw_digits draws a data set");
  return in;
}

// The header's count is compared with the file's size before anything is allocated.
std::vector<std::uint8_t> read_rest(std::istream& in, const path& file, std::uint64_t bytes) {
  const auto begin = static_cast<std::uint64_t>(in.tellg());
  const std::uint64_t held = std::filesystem::file_size(file) - begin;
  if (held != bytes) {
    refuse(file, "its header promises " + std::to_string(bytes) + " bytes of data and " +
                     std::to_string(held) + " follow");
  }
  std::vector<std::uint8_t> data(static_cast<std::size_t>(bytes));
  if (!in.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(bytes))) {
    refuse(file, "could not be read to its end");
  }
  return data;
}

void write_file(const path& file, std::initializer_list<std::uint32_t> header,
                const std::vector<std::uint8_t>& data) {
  std::ofstream out(file, std::ios::binary);
  for (const std::uint32_t value : header) {
    for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(value >> shift & 0xff));
  }
  out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  out.close();
  if (!out) refuse(file, "could not be written");
}

}  // namespace

ImageSet read_image_set(const path& folder) {
  const path images = folder / kImagesName;
  const path labels = folder / kLabelsName;
  ImageSet set;
  std::ifstream in = open_to_read(images);
  expect_magic(in, images, kImagesMagic);
  const std::uint64_t count = read_number(in, images);
  set.rows = read_number(in, images);
  set.columns = read_number(in, images);
  if (count == 0) refuse(images, "holds no image");
  if (set.rows == 0 || set.columns == 0 || set.rows > kMaxSide || set.columns > kMaxSide) {
    refuse(images, "its images are " + std::to_string(set.rows) + " x " +
                       std::to_string(set.columns) + " pixels");
  }
  set.pixels = read_rest(in, images, count * set.rows * set.columns);

  in = open_to_read(labels);
  expect_magic(in, labels, kLabelsMagic);
  const std::uint64_t label_count = read_number(in, labels);
  if (label_count != count) {
    refuse(labels, "holds " + std::to_string(label_count) + " labels for " + std::to_string(count) +
                       " images");
  }
  set.labels = read_rest(in, labels, count);
  for (const std::uint8_t label : set.labels) {
    if (label > 9) refuse(labels, "holds the label " + std::to_string(label));
  }
  return set;
}

void write_image_set(const path& folder, const ImageSet& set) {
  std::filesystem::create_directories(folder);
  const auto count = static_cast<std::uint32_t>(set.labels.size());
  write_file(folder / kImagesName, {kImagesMagic, count, set.rows, set.columns}, set.pixels);
  write_file(folder / kLabelsName, {kLabelsMagic, count}, set.labels);
}

}  // namespace digits
