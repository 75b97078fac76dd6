#pragma once

#include <stdio.h>
#include <sys/wait.h>

#include <string>

namespace ddpscope {

struct ToolRun {
  int code = -1;
  std::string text;  ///< stdout and stderr

  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
};

/// Runs a line of shell in which `ddpscope` is the tool under test.
inline ToolRun run_shell(const std::string& line) {
  const std::string command = "unset DDPSCOPE OMP_NUM_THREADS; ddpscope() { '" DDPSCOPE_TOOL
                              "' \"$@\"; }; { " +
                              line + "\n} 2>&1";
  ToolRun run;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  char buffer[4096];
  std::size_t bytes = 0;
  while ((bytes = ::fread(buffer, 1, sizeof(buffer), pipe)) > 0) run.text.append(buffer, bytes);
  const int status = ::pclose(pipe);
  run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

}  // namespace ddpscope
