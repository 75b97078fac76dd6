#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ddpscope {

/// One option or argument, as `--help` tells it.
struct OptionHelp {
  std::vector<std::string> names;  ///< `--json`, `-o`; empty for an argument
  std::string value;               ///< `DIR`; empty for a flag
  std::string summary;
  bool is_required = false;
  bool is_repeated = false;
};

struct CommandHelp {
  std::string name;
  std::string summary;
  std::string footer;
  std::vector<OptionHelp> options;  ///< arguments first
};

/// Every command of the program that `command` belongs to.
std::vector<CommandHelp> command_tree(const CLI::App& command);

}  // namespace ddpscope
