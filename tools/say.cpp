#include <cerrno>
#include <cstdio>
#include <cstring>

#include "report/escape.h"
#include "tools/command.h"

namespace ddpscope {
namespace {
int failed_with = 0;  // the first errno of stdout
}

void say(std::string_view text) {
  const auto line = "ddpscope: " + escape_terminal(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print(std::string_view text) {
  const bool all = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if ((!all || std::fflush(stdout) != 0) && failed_with == 0) failed_with = errno;
}

std::string print_failure() {
  return failed_with == 0 || failed_with == EPIPE ? std::string() : std::strerror(failed_with);
}

}  // namespace ddpscope
