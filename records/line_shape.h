#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddpscope {

inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxDepth = 64;
inline constexpr std::size_t kMaxMembers = 1024;

/// What makes a line too costly to parse: its length, its depth, an object of too many members.
/// Empty if it is neither. Looks at brackets, strings and colons only.
std::string shape_problem(std::string_view line);

}  // namespace ddpscope
