#include "records/line_shape.h"

#include <fmt/format.h>

#include <array>

namespace ddpscope {
namespace {

/// The position after the string that begins at `begin`.
std::size_t skip_string(std::string_view line, std::size_t begin) {
  for (std::size_t i = begin + 1; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      return i + 1;
    }
  }
  return line.size();
}

}  // namespace

std::string shape_problem(std::string_view line) {
  if (line.size() > kMaxLineBytes) return "the line is longer than 1 MiB";
  std::array<std::size_t, kMaxDepth + 1> members = {};
  std::size_t depth = 0;
  for (std::size_t i = 0; i < line.size();) {
    const char letter = line[i];
    if (letter == '"') {
      i = skip_string(line, i);
      continue;
    }
    if (letter == '{' || letter == '[') {
      if (++depth > kMaxDepth) return fmt::format("the line nests deeper than {}", kMaxDepth);
      members[depth] = 0;
    }
    if ((letter == '}' || letter == ']') && depth > 0) --depth;
    if (letter == ':' && ++members[depth] > kMaxMembers) {
      return fmt::format("an object has more than {} members", kMaxMembers);
    }
    ++i;
  }
  return {};
}

}  // namespace ddpscope
