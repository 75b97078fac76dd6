#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "report/escape.h"
#include "tools/command.h"
#include "tools/report_input.h"

namespace ddpscope {
namespace {
struct Library {
  std::string_view name;
  std::string_view built;
  std::string RunRecord::*ran;
};

constexpr Library kLibraries[] = {{"LibTorch", DDPSCOPE_TOOL_TORCH, &RunRecord::torch_version},
                                  {"CUDA", DDPSCOPE_TOOL_CUDA, &RunRecord::cuda},
                                  {"NCCL", "that of the program", &RunRecord::nccl}};

/// Each version that a rank of the run had, once.
std::string versions_of(const MergedReport& report, std::string RunRecord::*member) {
  std::vector<std::string> versions;
  for (const RankState& rank : report.ranks) {
    const std::string& version = rank.run.*member;
    versions.push_back(version.empty() ? "none" : escape_terminal(version));
  }
  std::ranges::sort(versions);
  versions.erase(std::ranges::unique(versions).begin(), versions.end());
  return fmt::format("{}", fmt::join(versions, ", "));
}
}  // namespace

CommandAction make_version_command(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  app.add_option("PATH", *path,
                 "report folder, rank file or report.json: names what this run had loaded, too");
  return [path](const CommandContext&) {
    JudgedReport judged;
    if (!path->empty()) {
      judged = read_report_at(*path);
      require_files(judged, *path);
    }
    print("ddpscope " DDPSCOPE_TOOL_VERSION "\n");
    for (const auto& [name, built, ran] : kLibraries) {
      const std::string run = path->empty() ? "" : "; run: " + versions_of(judged.report, ran);
      print(fmt::format("{:<8} {}{}\n", name, built, run));
    }
    return 0;
  };
}

}  // namespace ddpscope
