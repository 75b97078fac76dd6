#include "plugin/tcp_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "model/clock.h"
#include "records/file_descriptor.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kNsPerMs = 1'000'000;

/// 0, or an errno.
int wait_connected(int fd, std::int64_t end_ns) {
  for (;;) {
    const std::int64_t left_ms = std::max<std::int64_t>((end_ns - steady_ns()) / kNsPerMs, 0);
    pollfd waited{.fd = fd, .events = POLLOUT, .revents = 0};
    const int ready =
        ::poll(&waited, 1, static_cast<int>(std::min<std::int64_t>(left_ms, 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return ETIMEDOUT;
    if (ready < 0) return errno;
    int error = 0;
    socklen_t size = sizeof error;
    return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
  }
}

int try_address(const addrinfo& address, std::int64_t end_ns) {
  const FileDescriptor socket(::socket(
      address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (!socket) return errno;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  return errno == EINPROGRESS ? wait_connected(socket.get(), end_ns) : errno;
}
}  // namespace

std::string why_not_reached(const std::string& host, std::uint16_t port, std::int64_t timeout_ms) {
  const std::string name = std::to_string(port);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int unresolved = ::getaddrinfo(host.c_str(), name.c_str(), &hints, &list);
  if (unresolved != 0) return host + ": " + ::gai_strerror(unresolved);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, &::freeaddrinfo);
  const std::int64_t end_ns = steady_ns() + timeout_ms * kNsPerMs;
  int error = 0;
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    error = try_address(*address, end_ns);
    if (error == 0) return {};
  }
  return host + " port " + name + ": " + std::strerror(error);
}

}  // namespace ddpscope
