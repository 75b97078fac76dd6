#include "records/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ddpscope {

std::string open_regular(const std::string& path, FileDescriptor& file) {
  file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ELOOP) return "the file is a symbolic link";
  struct stat info = {};
  if (!file || ::fstat(file.get(), &info) != 0) return std::strerror(errno);
  return S_ISREG(info.st_mode) ? "" : "this is no regular file";
}

std::string read_regular(const std::string& path, std::size_t max_bytes, std::string& text) {
  FileDescriptor file;
  if (std::string error = open_regular(path, file); !error.empty()) return error;
  std::array<char, 65536> buffer;
  while (text.size() <= max_bytes) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::strerror(errno);
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace ddpscope
