#include "stacks/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace ddpscope {
namespace {

constexpr std::string_view kLeftOut[] = {"LD_PRELOAD=", "DDPSCOPE=", "DEBUGINFOD_URLS="};

std::vector<char*> child_environment() {
  std::vector<char*> kept;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text = *each;
    const auto begins = [&](std::string_view name) { return text.starts_with(name); };
    if (std::ranges::none_of(kLeftOut, begins)) kept.push_back(*each);
  }
  kept.push_back(nullptr);
  return kept;
}

pid_t start(const std::vector<std::string>& command, int output) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  std::vector<char*> environment = child_environment();
  const int error =
      ::posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : 0;
}

/// Until the other end closes; false at the deadline.
bool read_all(int input, Deadline deadline, std::string* text) {
  std::array<char, 4096> block;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd ready{.fd = input, .events = POLLIN, .revents = 0};
    if (left.count() <= 0) return false;
    const int count = ::poll(&ready, 1, int(std::min<std::int64_t>(left.count(), 1000)));
    if (count < 0 && errno != EINTR) return false;
    if (count <= 0) continue;
    const ssize_t bytes = ::read(input, block.data(), block.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return true;
    text->append(block.data(), std::size_t(bytes));
  }
}

}  // namespace

std::optional<ChildOutput> child_output(const std::vector<std::string>& command,
                                        Deadline deadline) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t child = start(command, ends[1]);
  ::close(ends[1]);
  ChildOutput output;
  if (child != 0) {
    output.in_time = read_all(ends[0], deadline, &output.text);
    ::kill(child, SIGKILL);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(ends[0]);
  if (child == 0) return std::nullopt;
  return output;
}

}  // namespace ddpscope
