#include "plugin/first_to_fail.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <functional>

namespace ddpscope {

// It takes a name that only one process of a host can have, and that lies in no folder. Where there
// are no such names each rank speaks.
bool FirstToFail::is_it(const std::string& run_id) {
  if (answer_.has_value()) return *answer_;
  const std::string name = "ddpscope:" + std::to_string(std::hash<std::string>()(run_id));
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name, address.sun_path + 1);  // after the 0 of names without a file
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  name_ = FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto* const place = reinterpret_cast<const struct sockaddr*>(&address);  // NOLINT
  answer_ = ::bind(name_.get(), place, bytes) == 0 || errno != EADDRINUSE;
  return *answer_;
}

}  // namespace ddpscope
