#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stacks/symbol_source.h"

namespace ddpscope {

struct ChildOutput {
  std::string text;
  bool in_time = true;
};

/// What the program writes to its standard output until it ends; it is killed at the deadline. It
/// starts without our library and without the servers of debug information. Nothing if it cannot
/// be started.
std::optional<ChildOutput> child_output(const std::vector<std::string>& command, Deadline deadline);

}  // namespace ddpscope
