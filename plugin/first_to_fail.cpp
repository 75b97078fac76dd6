#include "plugin/first_to_fail.h"

#include <cerrno>

#include "plugin/socket_name.h"

namespace ddpscope {

// Where no process can have a name for itself, each rank speaks.
bool FirstToFail::is_it(const std::string& run_id) {
  if (answer_.has_value()) return *answer_;
  name_ = FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  answer_ = SocketName(run_id).bind(name_.get()) || errno != EADDRINUSE;
  return *answer_;
}

}  // namespace ddpscope
