#include "tools/report_output.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "checks/check_table.h"
#include "records/report_dir.h"
#include "report/report_writer.h"
#include "tools/check_pages.h"
#include "tools/command.h"
#include "tools/exit_status.h"

namespace ddpscope {
namespace {
void write(const std::string& path, std::string_view text) {
  const auto error = write_file_atomically(path, text);
  if (!error.empty()) throw CommandError(ExitStatus::kInput, error);
}

/// The table of checks with its pages.
std::vector<RuleText> all_rules() {
  const auto pages = check_pages();
  std::vector<RuleText> rules;
  for (const CheckRow& row : check_table()) {
    const auto page = std::ranges::find(pages, row.id, &CheckPage::id);
    rules.push_back({.id = row.id,
                     .severity = row.severity,
                     .summary = row.summary,
                     .page = page == pages.end() ? "" : page->text});
  }
  return rules;
}
}  // namespace

void publish(const MergedReport& report, const ReportPaths& paths) {
  write(paths.html, render_html(report, {}));
  write(paths.json, render_json(report, {}));
  const auto rules = all_rules();
  RenderOptions options{.fail_on = paths.fail_on, .rules = rules};
  if (!paths.sarif.empty()) write(paths.sarif, render_sarif(report, options));
  if (!paths.junit.empty()) write(paths.junit, render_junit(report, options));
  if (!paths.trace.empty()) write(paths.trace, render_trace(report, options));
  options.colour = prints_to_terminal();
  options.report_path = paths.html;
  print(render_verdict(report, options));
}

bool prints_to_terminal() { return ::isatty(STDOUT_FILENO) != 0; }

}  // namespace ddpscope
