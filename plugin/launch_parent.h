#pragma once

#include <sys/types.h>

#include <string>

namespace ddpscope {

/// The process that started those which ask with the same `launch` on this host. Each may have a
/// parent of its own, such as `timeout` or a subshell: it is the parent of the first that asks, for
/// those that start soon after that one and while it lives.
pid_t launch_parent(const std::string& launch);

}  // namespace ddpscope
