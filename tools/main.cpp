#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>

#include "tools/command.h"
#include "tools/exit_status.h"

namespace ddpscope {
namespace {
struct Command {
  CLI::App* app;
  CommandAction action;
};

std::vector<Command> add_commands(CLI::App& app) {
  std::vector<Command> commands;
  const auto add = [&](const char* name, const char* summary, CommandAction (*make)(CLI::App&)) {
    auto* command = app.add_subcommand(name, summary);
    commands.push_back({command, make(*command)});
  };
#define DDPSCOPE_COMMAND(name, summary) add(#name, summary, make_##name##_command);
#include "tools/commands.def"
#undef DDPSCOPE_COMMAND
  return commands;
}

int usage_error(const CLI::App& app, std::string_view text) {
  const auto used = app.get_subcommands();
  const auto name = used.empty() ? std::string() : ' ' + used.front()->get_name();
  say(fmt::format("error: {}; see ddpscope{} --help", text.substr(0, text.find('\n')), name));
  return static_cast<int>(ExitStatus::kUsage);
}

int run_command(CLI::App& app, std::vector<std::string> arguments, CommandContext& context) {
  const auto commands = add_commands(app);
  const auto marker = std::ranges::find(arguments, "--");
  if (marker != arguments.end() && !arguments.empty() && takes_program(arguments.front())) {
    context.has_program = true;
    context.program.assign(marker + 1, arguments.end());
    arguments.erase(marker, arguments.end());
  }
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error.what());
  }
  for (const auto& command : commands) {
    if (command.app->parsed()) return command.action(context);
  }
  return usage_error(app, "no command is named");
}

int guarded_main(int argc, char** argv) {
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is told as a full disk is
  CLI::App app("Diagnostics for data-parallel training with LibTorch", "ddpscope");
  CommandContext context{
      .program = {}, .has_program = false, .environment = ProcessEnvironment(environ)};
  try {
    const int code = run_command(app, {argv + 1, argv + argc}, context);
    const std::string failure = print_failure();
    if (failure.empty()) return code;
    say(fmt::format("error: stdout: {}", failure));
    return code == 0 ? static_cast<int>(ExitStatus::kInput) : code;
  } catch (const CommandError& error) {
    if (error.status() == ExitStatus::kUsage) return usage_error(app, error.what());
    say(fmt::format("error: {}", error.what()));
    return static_cast<int>(error.status());
  } catch (const std::exception& error) {
    say(fmt::format("internal fault: {}", error.what()));
  }
  return static_cast<int>(ExitStatus::kInternal);
}
}  // namespace
}  // namespace ddpscope

int main(int argc, char** argv) { return ddpscope::guarded_main(argc, argv); }
