#include "plugin/launch_parent.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "plugin/socket_name.h"
#include "records/file_descriptor.h"
#include "records/process_start.h"

namespace ddpscope {
namespace {
constexpr int kMostRanks = 4096;  // that ask on one host; none is answered
constexpr int kTries = 20;        // 1 ms apart
// What an earlier run left, and did not end, has the port of its launch as well.
constexpr std::int64_t kSoonSeconds = 60;

FileDescriptor stream() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// The process of this user that listens there; 0: none, or not one that this one sees.
pid_t listener(const SocketName& name) {
  for (int tried = 0; tried < kTries; ++tried) {
    const FileDescriptor caller = stream();
    if (name.connect(caller.get())) {
      struct ucred peer = {};
      socklen_t bytes = sizeof peer;
      const int failed = ::getsockopt(caller.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
      return failed == 0 && peer.uid == ::geteuid() ? peer.pid : 0;
    }
    if (errno != ECONNREFUSED) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it has the name, and no ear yet
  }
  return 0;
}
}  // namespace

pid_t launch_parent(const std::string& launch) {
  // To the end of the process, whichever session asks.
  static std::string asked;
  static pid_t answer = 0;
  if (answer != 0 && asked == launch) return answer;
  asked = launch;
  answer = ::getppid();
  const SocketName name(launch + ":" + std::to_string(::geteuid()));
  FileDescriptor socket = stream();
  if (name.bind(socket.get())) {
    if (::listen(socket.get(), kMostRanks) == 0) socket.release();
  } else if (errno == EADDRINUSE) {
    const ProcessStart first = start_of(listener(name)), own = start_of(::getpid());
    const bool are_together = first.parent > 0 && first.seconds > 0 &&
                              std::abs(first.seconds - own.seconds) <= kSoonSeconds;
    if (are_together) answer = static_cast<pid_t>(first.parent);
  }
  return answer;
}

}  // namespace ddpscope
