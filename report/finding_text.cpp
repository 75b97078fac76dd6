#include <fmt/format.h>

#include <algorithm>

#include "records/words.h"
#include "report/escape.h"
#include "report/report_writer.h"
#include "report/wording.h"

namespace ddpscope {
namespace {

std::string_view colour_of(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "\x1b[1;31m";
    case Severity::kWarning:
      return "\x1b[1;33m";
    case Severity::kNote:
      return "\x1b[1;36m";
  }
  return "";
}

std::string severity_text(Severity severity, bool colour) {
  if (!colour) return std::string(word(severity));
  return fmt::format("{}{}\x1b[0m", colour_of(severity), word(severity));
}

struct SiteLine {
  std::string role;
  std::string function;
  std::string place;
};

SiteLine site_line(const Site& site) {
  const SitePlace at = place_of(site);
  return {.role = escape_terminal(site.role) + ":",
          .function = escape_terminal(at.function),
          .place = escape_terminal(at.place)};
}

std::string sites_text(const Finding& finding) {
  constexpr std::size_t kWidestFunction = 60;
  std::vector<SiteLine> lines;
  std::size_t role_width = 0;
  std::size_t function_width = 0;
  for (const auto& site : finding.sites) {
    lines.push_back(site_line(site));
    role_width = std::max(role_width, lines.back().role.size());
    function_width = std::max(function_width, lines.back().function.size());
  }
  function_width = std::min(function_width, kWidestFunction);
  std::string text;
  for (const auto& line : lines) {
    text += fmt::format("  {:<{}} ", line.role, role_width);
    if (line.function.empty()) {
      text += line.place + "\n";
    } else if (line.place.empty()) {
      text += line.function + "\n";
    } else {
      text += fmt::format("{:<{}}  {}\n", line.function, function_width, line.place);
    }
  }
  return text;
}

std::string fixes_text(const Finding& finding) {
  std::string text;
  for (const auto& fix : fixes_in_order(finding)) {
    text += fmt::format("{}({}) {}", text.empty() ? "  fix: " : "; ",
                        applicability_words(fix.applicability), escape_terminal(fix.text));
  }
  return text.empty() ? text : text + "\n";
}

std::string suppressed_words(const Finding& finding) {
  if (!finding.suppressed) return "";
  if (finding.suppression_reason.empty()) return " (suppressed)";
  return fmt::format(" (suppressed: {})", escape_terminal(finding.suppression_reason));
}
}  // namespace

std::string render_place_line(const Finding& finding, const FindingStyle& style) {
  std::string place = escape_terminal(tensor_place_of(finding, style.with_model));
  if (!place.empty()) place = " " + place;
  const std::string op =
      finding.op.empty() ? "" : fmt::format(" ({})", escape_terminal(finding.op));
  return fmt::format("{} step {}{}{}: {}: {} [{}]{}\n", rank_words(ranks_of(finding)), finding.step,
                     place, op, severity_text(finding.severity, style.colour),
                     escape_terminal(finding.what), escape_terminal(finding.id),
                     suppressed_words(finding));
}

std::string render_finding(const Finding& finding, const FindingStyle& style) {
  std::string text = render_place_line(finding, style);
  text += sites_text(finding);
  if (!finding.why.empty()) text += fmt::format("  why: {}\n", escape_terminal(finding.why));
  text += fixes_text(finding);
  text += fmt::format("  see: ddpscope explain {}\n", escape_terminal(finding.id));
  return text;
}

}  // namespace ddpscope
