#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/suppressions.h"
#include "model/finding.h"
#include "report/merged_report.h"

namespace ddpscope {

/// The joint report of some folders or rank files, and what of them was unusable.
struct JudgedReport {
  MergedReport report;
  std::size_t files = 0;              ///< that were read
  std::vector<std::string> unusable;  ///< one line each
};

/// Reads every rank file of `paths` and compares the ranks of the newest run. Findings that the
/// file `suppressions` matches are suppressed; paths in records are never opened. Throws
/// CommandError where a path is neither a folder nor a rank file, or a suppression is wrong.
JudgedReport read_reports(const std::vector<std::string>& paths,
                          const std::string& suppressions = {});

/// Of a report.json that is read.
inline constexpr std::size_t kMaxReportBytes = std::size_t{1} << 30;

/// The same of one folder, one rank file or one report.json.
JudgedReport read_report_at(const std::string& path, const std::string& suppressions = {});

/// Throws CommandError where the file cannot be read or a line of it is wrong.
SuppressionList read_suppression_list(const std::string& path);

/// Says what was unusable. Throws CommandError where nothing was usable.
void require_files(const JudgedReport& judged, const std::string& place);

/// The exit code of a command that judged `judged`.
int judged_exit_code(const JudgedReport& judged, Severity fail_on);

/// error, warning or note.
Severity severity_of(const std::string& word);

}  // namespace ddpscope
