#include "tools/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace ddpscope {
namespace {
struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Pipe make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

struct ChildPlan {
  std::vector<char*> argv;
  std::vector<char*> environment;
  const sigset_t* signal_mask = nullptr;
  pid_t launcher = 0;
  int output = -1;
  int errors = -1;
  int failure = -1;
};

/// Ranks do not share the terminal's input: a background group that reads it would be stopped.
bool replace_terminal_input() {
  if (::isatty(STDIN_FILENO) == 0) return true;
  const int null = ::open("/dev/null", O_RDONLY);
  return null >= 0 && ::dup2(null, STDIN_FILENO) >= 0;
}

bool prepare_child(const ChildPlan& plan) {
  if (::setpgid(0, 0) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  if (::getppid() != plan.launcher) ::_exit(1);
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  return replace_terminal_input() && ::dup2(plan.output, STDOUT_FILENO) >= 0 &&
         ::dup2(plan.errors, STDERR_FILENO) >= 0 &&
         ::sigprocmask(SIG_SETMASK, plan.signal_mask, nullptr) == 0;
}

[[noreturn]] void become_rank(const ChildPlan& plan) {
  if (prepare_child(plan)) ::execvpe(plan.argv[0], plan.argv.data(), plan.environment.data());
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(plan.failure, &error, sizeof(error));
  ::_exit(127);
}

/// 0 once the program runs, else the errno that the child left.
int wait_for_exec(int fd) {
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = ::read(fd, &error, sizeof(error));
  } while (bytes < 0 && errno == EINTR);
  return bytes == sizeof(error) ? error : 0;
}
}  // namespace

StartResult start_rank(const std::vector<std::string>& argv, ProcessEnvironment environment,
                       const sigset_t& signal_mask_before) {
  auto output = make_pipe();
  auto errors = make_pipe();
  auto failure = make_pipe();
  if (!output.read || !errors.read || !failure.read) return {.process = {}, .error = errno};

  ChildPlan plan{.argv = {},
                 .environment = environment.pointers(),
                 .signal_mask = &signal_mask_before,
                 .launcher = ::getpid(),
                 .output = output.write.get(),
                 .errors = errors.write.get(),
                 .failure = failure.write.get()};
  for (const auto& argument : argv) plan.argv.push_back(const_cast<char*>(argument.c_str()));
  plan.argv.push_back(nullptr);

  const pid_t pid = ::fork();
  if (pid < 0) return {.process = {}, .error = errno};
  if (pid == 0) become_rank(plan);
  ::setpgid(pid, pid);
  failure.write = FileDescriptor();
  const int error = wait_for_exec(failure.read.get());
  if (error != 0) {
    ::waitpid(pid, nullptr, 0);
    return {.process = {}, .error = error};
  }
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(errors.read.get(), F_SETFL, O_NONBLOCK);
  return {.process = {pid, std::move(output.read), std::move(errors.read)}, .error = 0};
}

}  // namespace ddpscope
