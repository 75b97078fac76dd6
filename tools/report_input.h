#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "report/merged_report.h"

namespace ddpscope {

/// The joint report of some folders or rank files, and what of them was unusable.
struct JudgedReport {
  MergedReport report;
  std::size_t files = 0;              ///< that were read
  std::vector<std::string> unusable;  ///< one line each
};

/// Reads every rank file of `paths`. Throws CommandError where a path is neither a folder nor a
/// rank file.
JudgedReport read_reports(const std::vector<std::string>& paths);

/// Says what was unusable. Throws CommandError where nothing was usable.
void require_files(const JudgedReport& judged, const std::string& place);

/// The exit code of a command that judged `judged`.
int judged_exit_code(const JudgedReport& judged, Severity fail_on);

/// error, warning or note.
Severity severity_of(const std::string& word);

}  // namespace ddpscope
