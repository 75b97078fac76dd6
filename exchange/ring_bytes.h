#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>
#include <vector>

#include "records/file_descriptor.h"

namespace ddpscope {

inline constexpr std::size_t kWindowBytes = 1 << 16;

/// A copy of a part of a file. A mapping would end the reader where somebody cuts the file, and a
/// file that stays open for each of a thousand ranks is more than a process may have.
struct ByteWindow {
  std::size_t begin = 0;
  std::vector<char> bytes;

  /// Null where it does not hold all of `size` bytes at `at` of the file.
  const char* find(std::size_t at, std::size_t size) const {
    const bool is_here = at >= begin && at - begin + size <= bytes.size();
    return is_here ? bytes.data() + (at - begin) : nullptr;
  }
};

struct OpenedFile {
  FileDescriptor file;
  struct stat info = {};
  std::string error;
};

/// For reading; waits for nothing and follows no link.
OpenedFile open_regular(const std::string& path);
/// As many as there are.
std::vector<char> read_bytes(int fd, std::size_t begin, std::size_t size);

}  // namespace ddpscope
