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
/// Writes files, and keeps why the first could not be written.
class Files {
 public:
  /// Whether the file is there now; not where no path is named.
  template <class Render>
  bool write(const std::string& path, const Render& render) {
    if (path.empty()) return false;
    const auto error = write_file_atomically(path, render());
    if (problem_.empty()) problem_ = error;
    return error.empty();
  }
  const std::string& problem() const { return problem_; }

 private:
  std::string problem_;
};

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
  Files files;
  const bool has_html = files.write(paths.html, [&] { return render_html(report, {}); });
  files.write(paths.json, [&] { return render_json(report, {}); });
  const auto rules = all_rules();
  RenderOptions options{.fail_on = paths.fail_on, .rules = rules};
  files.write(paths.sarif, [&] { return render_sarif(report, options); });
  files.write(paths.junit, [&] { return render_junit(report, options); });
  files.write(paths.trace, [&] { return render_trace(report, options); });
  options.colour = prints_to_terminal();
  if (has_html) options.report_path = paths.html;
  print(render_verdict(report, options));
  if (!files.problem().empty()) throw CommandError(ExitStatus::kInput, files.problem());
}

bool prints_to_terminal() { return ::isatty(STDOUT_FILENO) != 0; }

}  // namespace ddpscope
