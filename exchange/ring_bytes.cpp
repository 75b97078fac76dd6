#include "exchange/ring_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ddpscope {

OpenedFile open_regular(const std::string& path) {
  OpenedFile opened;
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  opened.file = FileDescriptor(::open(path.c_str(), kFlags));
  if (!opened.file || ::fstat(opened.file.get(), &opened.info) != 0) {
    opened.error = path + ": " + std::strerror(errno);
  } else if (!S_ISREG(opened.info.st_mode)) {
    opened.error = path + ": this is no regular file";
  }
  return opened;
}

std::vector<char> read_bytes(int fd, std::size_t begin, std::size_t size) {
  std::vector<char> bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const auto at = static_cast<off_t>(begin + done);
    const ssize_t got = ::pread(fd, bytes.data() + done, size - done, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace ddpscope
