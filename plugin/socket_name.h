#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

namespace ddpscope {

/// The address of a name that one process of a host can have at a time, as long as it lives. It
/// lies in no folder.
class SocketName {
 public:
  explicit SocketName(const std::string& name);
  /// False, and `errno`, where another process has it.
  bool bind(int socket) const noexcept;
  bool connect(int socket) const noexcept;

 private:
  struct sockaddr_un address_ = {};
  socklen_t bytes_ = 0;
};

}  // namespace ddpscope
