#include <CLI/CLI.hpp>

#include "tools/command.h"

namespace ddpscope {

CommandAction make_version_command(CLI::App&) {
  return [](const CommandContext&) {
    print("ddpscope " DDPSCOPE_TOOL_VERSION
          "\n"
          "LibTorch " DDPSCOPE_TOOL_TORCH
          "\n"
          "CUDA     " DDPSCOPE_TOOL_CUDA
          "\n"
          "NCCL     that of the program; the record of a run names it\n");
    return 0;
  };
}

}  // namespace ddpscope
