#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/process_environment.h"

namespace CLI {
class App;
}

namespace ddpscope {

/// Whether what stands after `--` is a program and its arguments.
inline bool takes_program(std::string_view command) {
  return command == "run" || command == "selftest";
}

/// What a command knows besides its options.
struct CommandContext {
  std::vector<std::string> program;  ///< what stands after `--`
  bool has_program = false;
  ProcessEnvironment environment;
};

/// Does the work and returns the exit code. Throws CommandError for one line and a status.
using CommandAction = std::function<int(const CommandContext&)>;

/// Each adds its options to `app`.
#define DDPSCOPE_COMMAND(name, summary) CommandAction make_##name##_command(CLI::App& app);
#include "tools/commands.def"
#undef DDPSCOPE_COMMAND

/// Prints `ddpscope: <text>` to stderr, made safe for a terminal.
void say(std::string_view text);
/// Writes all of `text` to stdout.
void print(std::string_view text);
/// Why something of that was not written; empty where all was, and where the reader went away.
std::string print_failure();

}  // namespace ddpscope
