#include <fmt/format.h>

#include "report/escape.h"
#include "report/report_writer.h"
#include "report/wording.h"

namespace ddpscope {
namespace {
/// Data of a workflow command; of a property, whose end and neighbours have letters of their own.
std::string escape_command(std::string_view text, bool is_property) {
  std::string result;
  for (const char letter : escape_terminal(text)) {
    if (letter == '%') {
      result += "%25";
    } else if (is_property && letter == ':') {
      result += "%3A";
    } else if (is_property && letter == ',') {
      result += "%2C";
    } else {
      result += letter;
    }
  }
  return result;
}

std::string_view command_of(Severity severity) {
  if (severity == Severity::kError) return "error";
  return severity == Severity::kWarning ? "warning" : "notice";
}

std::string annotation(const Finding& finding, bool with_model) {
  std::string properties;
  if (const Site* site = main_site(finding)) {
    const Frame& frame = *line_of(*site);
    properties = fmt::format("file={},line={},", escape_command(file_of(frame), true), frame.line);
  }
  const std::string place = tensor_place_of(finding, with_model);
  std::string text = fmt::format("{} step {}{}: {}", rank_words(ranks_of(finding)), finding.step,
                                 place.empty() ? "" : " " + place, finding.what);
  if (!finding.why.empty()) text += ". " + finding.why;
  const auto fixes = fixes_in_order(finding);
  if (!fixes.empty()) text += ". Fix: " + fixes.front().text;
  return fmt::format("::{} {}title={}::{}\n", command_of(finding.severity), properties,
                     escape_command(finding.id, true), escape_command(text, false));
}
}  // namespace

std::string render_github(const MergedReport& report, const RenderOptions&) {
  std::string text;
  for (const Finding& finding : report.findings) {
    if (!finding.suppressed) text += annotation(finding, report.models.size() > 1);
  }
  return text;
}

}  // namespace ddpscope
