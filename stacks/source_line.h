#pragma once

#include <cstdint>
#include <string>

namespace ddpscope {

/// One line of a source file, trimmed, at most 200 bytes; empty if it cannot be read, or if the
/// file was changed after `built` was: its lines would be others.
std::string source_line(const std::string& file, std::int64_t line, const std::string& built);

}  // namespace ddpscope
