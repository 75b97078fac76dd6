#pragma once

#include <cstddef>
#include <string>

#include "records/file_descriptor.h"

namespace ddpscope {

/// Opens what is a regular file and no link to one. Returns why it cannot, or nothing.
std::string open_regular(const std::string& path, FileDescriptor& file);

/// Its whole text. Stops behind `max_bytes`: a longer text is of a file that is too long.
std::string read_regular(const std::string& path, std::size_t max_bytes, std::string& text);

}  // namespace ddpscope
