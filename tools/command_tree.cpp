#include "tools/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace ddpscope {
namespace {
/// What stands for the value: its own word, or that of its type in capitals.
std::string value_word(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  if (option.get_items_expected_max() == 0) return {};
  const std::string type = option.get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT")) return "N";
  return type.starts_with("DIR")                    ? "DIR"
         : type.starts_with("TEXT") || type.empty() ? "VALUE"
                                                    : type;
}

OptionHelp option_help(const CLI::Option& option) {
  OptionHelp help{.value = value_word(option),
                  .summary = option.get_description(),
                  .is_required = option.get_required(),
                  .is_repeated = option.get_items_expected_max() > 1};
  for (const auto& name : option.get_snames()) help.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) help.names.push_back("--" + name);
  return help;
}
}  // namespace

std::vector<CommandHelp> command_tree(const CLI::App& command) {
  const CLI::App* root = &command;
  while (root->get_parent() != nullptr) root = root->get_parent();
  std::vector<CommandHelp> commands;
  for (const CLI::App* app : root->get_subcommands([](const CLI::App*) { return true; })) {
    CommandHelp help{
        .name = app->get_name(), .summary = app->get_description(), .footer = app->get_footer()};
    for (const CLI::Option* option : app->get_options()) {
      help.options.push_back(option_help(*option));
    }
    std::ranges::stable_partition(help.options,
                                  [](const OptionHelp& option) { return option.names.empty(); });
    commands.push_back(std::move(help));
  }
  return commands;
}

}  // namespace ddpscope
