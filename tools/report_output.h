#pragma once

#include <string>

#include "report/merged_report.h"

namespace ddpscope {

/// Where the renderings of a merged report go.
struct ReportPaths {
  std::string html;
  std::string json;
  std::string sarif = {};  ///< empty, as those below: not written
  std::string junit = {};
  std::string trace = {};
  Severity fail_on = Severity::kError;
};

/// Writes the files and prints the verdict, then throws CommandError where a file could not be
/// written.
void publish(const MergedReport& report, const ReportPaths& paths);

/// Whether stdout is a terminal.
bool prints_to_terminal();

}  // namespace ddpscope
