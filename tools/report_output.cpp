#include "tools/report_output.h"

#include <unistd.h>

#include "records/report_dir.h"
#include "report/report_writer.h"
#include "tools/command.h"
#include "tools/exit_status.h"

namespace ddpscope {
namespace {
void write(const std::string& path, std::string_view text) {
  const auto error = write_file_atomically(path, text);
  if (!error.empty()) throw CommandError(ExitStatus::kInput, error);
}
}  // namespace

void publish(const MergedReport& report, const ReportPaths& paths) {
  write(paths.html, render_html(report, {}));
  write(paths.json, render_json(report, {}));
  RenderOptions options;
  options.colour = prints_to_terminal();
  options.report_path = paths.html;
  print(render_verdict(report, options));
}

bool prints_to_terminal() { return ::isatty(STDOUT_FILENO) != 0; }

}  // namespace ddpscope
