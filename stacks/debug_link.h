#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddpscope {

/// Where gdb, too, looks for the file that .gnu_debuglink of `file` names.
std::vector<std::string> debug_link_candidates(const std::string& file, const std::string& link);

/// The checksum that .gnu_debuglink holds of that file; 0 if it cannot be read.
std::uint32_t file_crc(const std::string& path);

}  // namespace ddpscope
