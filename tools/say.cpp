#include <cstdio>

#include "report/escape.h"
#include "tools/command.h"

namespace ddpscope {

void say(std::string_view text) {
  const auto line = "ddpscope: " + escape_terminal(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace ddpscope
