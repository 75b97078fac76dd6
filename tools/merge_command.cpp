#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <set>

#include "records/report_dir.h"
#include "tools/command.h"
#include "tools/exit_status.h"
#include "tools/report_input.h"
#include "tools/report_output.h"
#include "tools/trace_calls.h"

namespace ddpscope {
namespace {
struct MergeArguments {
  std::vector<std::string> dirs;
  ReportPaths paths;
  std::string fail_on = "error";
  std::string suppressions;
};

/// No report takes the place of a file that a rank wrote, or of another report.
void require_free(const ReportPaths& paths) {
  std::set<std::string> taken;
  for (const std::string& path : {paths.html, paths.json, paths.sarif, paths.junit, paths.trace}) {
    if (path.empty()) continue;
    const std::filesystem::path file = std::filesystem::path(path).lexically_normal();
    if (is_run_file(file.filename().string())) {
      throw CommandError(ExitStatus::kUsage, path + " has the name of a file that a run writes");
    }
    if (!taken.insert(file.string()).second) {
      throw CommandError(ExitStatus::kUsage, path + " is named for two reports");
    }
  }
}

int merge_dirs(const MergeArguments& options) {
  require_free(options.paths);
  const auto fail_on = severity_of(options.fail_on);
  auto judged = read_reports(options.dirs, options.suppressions);
  require_files(judged, options.dirs.front());
  auto paths = options.paths;
  if (paths.html.empty()) paths.html = options.dirs.front() + "/report.html";
  if (paths.json.empty()) paths.json = options.dirs.front() + "/report.json";
  paths.fail_on = fail_on;
  if (!paths.trace.empty()) add_calls(options.dirs, judged.report);
  publish(judged.report, paths);
  return judged_exit_code(judged, fail_on);
}
}  // namespace

CommandAction make_merge_command(CLI::App& app) {
  const auto options = std::make_shared<MergeArguments>();
  app.add_option("DIR", options->dirs, "Report folders of one run")->required();
  app.add_option("-o,--output", options->paths.html, "HTML report; default: DIR/report.html")
      ->type_name("FILE");
  app.add_option("--json", options->paths.json, "JSON report; default: DIR/report.json")
      ->type_name("FILE");
  app.add_option("--sarif", options->paths.sarif, "SARIF 2.1.0 report, for code scanning")
      ->type_name("FILE");
  app.add_option("--junit", options->paths.junit,
                 "JUnit report: one test case per check, failed by findings that reach --fail-on")
      ->type_name("FILE");
  app.add_option("--trace", options->paths.trace,
                 "Trace of steps, collectives and findings, for Perfetto or chrome://tracing")
      ->type_name("FILE");
  app.add_option("--fail-on", options->fail_on,
                 "Least severity that makes the exit code 1: error, warning or note");
  app.add_option("--suppressions", options->suppressions,
                 "Suppressions file; the one of the run is named by its setting and not opened")
      ->type_name("FILE");
  return [options](const CommandContext&) { return merge_dirs(*options); };
}

}  // namespace ddpscope
