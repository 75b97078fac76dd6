#include "stacks/debug_link.h"

#include <array>
#include <filesystem>
#include <fstream>

namespace ddpscope {
namespace {

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0xedb88320 : 0);
    table[i] = value;
  }
  return table;
}();

}  // namespace

std::vector<std::string> debug_link_candidates(const std::string& file, const std::string& link) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return {folder / link, folder / ".debug" / link,
          std::filesystem::path("/usr/lib/debug" + folder.string()) / link};
}

std::uint32_t file_crc(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return 0;
  std::ifstream in(path, std::ios::binary);
  std::vector<char> block(1 << 16);
  std::uint32_t crc = ~std::uint32_t{0};
  while (in.read(block.data(), std::streamsize(block.size())) || in.gcount() > 0) {
    for (std::streamsize i = 0; i < in.gcount(); ++i) {
      crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(block[std::size_t(i)])) & 0xff];
    }
  }
  return ~crc;
}

}  // namespace ddpscope
