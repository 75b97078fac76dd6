#include "stacks/source_line.h"

#include <filesystem>
#include <fstream>

namespace ddpscope {
namespace {

constexpr std::size_t kLongest = 200;
constexpr std::uintmax_t kLargestFile = std::uintmax_t{16} << 20;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return {};
  std::string kept = text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
  if (kept.size() <= kLongest) return kept;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(kept[end]) & 0xc0) == 0x80) --end;
  kept.resize(end);
  return kept;
}

}  // namespace

std::string source_line(const std::string& file, std::int64_t line, const std::string& built) {
  std::error_code error;
  const std::filesystem::path path(file);
  if (line <= 0 || !path.is_absolute() || !std::filesystem::is_regular_file(path, error)) return {};
  if (std::filesystem::file_size(path, error) > kLargestFile || error) return {};
  const auto changed = std::filesystem::last_write_time(path, error);
  const auto made = std::filesystem::last_write_time(built, error);
  if (error || changed > made) return {};
  std::ifstream in(path);
  std::string text;
  for (std::int64_t i = 0; i < line; ++i) {
    if (!std::getline(in, text)) return {};
  }
  return trimmed(text);
}

}  // namespace ddpscope
