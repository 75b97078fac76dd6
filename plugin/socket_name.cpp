#include "plugin/socket_name.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace ddpscope {
namespace {
const struct sockaddr* plain(const struct sockaddr_un& address) noexcept {
  return reinterpret_cast<const struct sockaddr*>(&address);  // NOLINT: as bind() and connect() ask
}
}  // namespace

SocketName::SocketName(const std::string& name) {
  const std::string hashed = "ddpscope:" + std::to_string(std::hash<std::string>()(name));
  address_.sun_family = AF_UNIX;
  std::ranges::copy(hashed, address_.sun_path + 1);  // after the 0 of names without a file
  bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + hashed.size());
}

bool SocketName::bind(int socket) const noexcept {
  return ::bind(socket, plain(address_), bytes_) == 0;
}

bool SocketName::connect(int socket) const noexcept {
  return ::connect(socket, plain(address_), bytes_) == 0;
}

}  // namespace ddpscope
