#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "checks/check_table.h"
#include "tools/command.h"
#include "tools/command_tree.h"

namespace ddpscope {
namespace {
using Commands = std::vector<CommandHelp>;

std::string check_ids() {
  std::string ids;
  for (const auto& row : check_table()) ids += fmt::format("{}{}", ids.empty() ? "" : " ", row.id);
  return ids;
}

/// What the arguments of a command can be, by command; files where it is none of these.
std::string words_of(std::string_view command) {
  if (command == "explain" || command == "suppress") return check_ids();
  return command == "completion" ? "bash zsh fish" : "";
}

/// Within single quotes of a shell: `quote` stands for one.
std::string replaced(std::string_view text, std::string_view quote) {
  std::string result;
  for (const char letter : text) {
    letter == '\'' ? result += quote : result += letter;
  }
  return result;
}

std::string bash(const Commands& commands) {
  std::string names;
  std::string cases;
  for (const auto& command : commands) {
    names += command.name + " ";
    std::string options;
    for (const auto& option : command.options) {
      for (const auto& name : option.names) options += name + " ";
    }
    cases += fmt::format("    {}) options='{}' words='{}' ;;\n", command.name, options,
                         words_of(command.name));
  }
  return fmt::format(R"(_ddpscope() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} options='--help' words=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{}--help' -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}}
complete -o default -F _ddpscope ddpscope
)",
                     names, cases);
}

/// `'--json[JSON report]:VALUE:_files'`
std::string zsh_option(const OptionHelp& option, const std::string& words) {
  std::string summary;
  for (const char letter : replaced(option.summary, "'\\''")) {
    if (letter == '[' || letter == ']' || letter == ':') summary += '\\';
    summary += letter;
  }
  if (option.names.empty()) {
    const auto action = words.empty() ? std::string("_files") : fmt::format("({})", words);
    return fmt::format(" '{}:{}:{}'", option.is_repeated ? "*" : "", summary, action);
  }
  std::string text;
  for (const auto& name : option.names) {
    text += fmt::format(" '{}[{}]{}'", name, summary,
                        option.value.empty() ? "" : fmt::format(":{}:_files", option.value));
  }
  return text;
}

std::string zsh(const Commands& commands) {
  std::string names;
  std::string cases;
  for (const auto& command : commands) {
    names += fmt::format("    '{}:{}'\n", command.name, replaced(command.summary, "'\\''"));
    std::string options;
    for (const auto& option : command.options) {
      options += zsh_option(option, words_of(command.name));
    }
    cases += fmt::format("    {}) _arguments{} ;;\n", command.name, options);
  }
  return fmt::format(R"(#compdef ddpscope
_ddpscope() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{}  esac
}}
if [ "$funcstack[1]" = _ddpscope ]; then _ddpscope "$@"; else compdef _ddpscope ddpscope; fi
)",
                     names, cases);
}

std::string fish(const Commands& commands) {
  std::string text;
  for (const auto& command : commands) {
    text += fmt::format("complete -c ddpscope -n __fish_use_subcommand -f -a {} -d '{}'\n",
                        command.name, replaced(command.summary, "\\'"));
    const auto begin =
        fmt::format("complete -c ddpscope -n '__fish_seen_subcommand_from {}'", command.name);
    for (const auto& option : command.options) {
      std::string names;
      for (const auto& name : option.names) {
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (names.empty()) continue;
      text += fmt::format("{}{}{} -d '{}'\n", begin, names, option.value.empty() ? "" : " -r",
                          replaced(option.summary, "\\'"));
    }
    const auto words = words_of(command.name);
    if (!words.empty()) text += fmt::format("{} -f -a '{}'\n", begin, words);
  }
  return text;
}
}  // namespace

CommandAction make_completion_command(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.footer("In this shell: source <(ddpscope completion bash)");
  return [shell, &app](const CommandContext&) {
    const Commands commands = command_tree(app);
    print(*shell == "bash" ? bash(commands) : *shell == "zsh" ? zsh(commands) : fish(commands));
    return 0;
  };
}

}  // namespace ddpscope
