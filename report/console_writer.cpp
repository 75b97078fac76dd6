#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/escape.h"
#include "report/report_writer.h"
#include "report/wording.h"

namespace ddpscope {
namespace {

constexpr std::size_t kShownMembers = 8;
constexpr std::size_t kShownRemarks = 8;

FindingStyle style_of(const MergedReport& report, const RenderOptions& options) {
  return {.colour = options.colour, .with_model = report.models.size() > 1};
}

using ByFingerprint = std::map<std::string_view, const Finding*>;

ByFingerprint index_of(const MergedReport& report) {
  ByFingerprint index;
  for (const auto& finding : report.findings) index[finding.fingerprint] = &finding;
  return index;
}

std::string incident_text(const Incident& incident, const ByFingerprint& index,
                          const FindingStyle& style, bool brief) {
  const auto primary = index.find(incident.primary);
  if (primary == index.end()) return {};
  if (brief) return render_place_line(*primary->second, style);
  std::string text = render_finding(*primary->second, style);
  std::size_t shown = 0;
  for (const auto& member : incident.members) {
    const auto found = index.find(member);
    if (found == index.end()) continue;
    if (shown == kShownMembers) {
      text += fmt::format("  led to: {} more\n", incident.members.size() - shown);
      break;
    }
    text += "  led to: " + render_place_line(*found->second, style);
    ++shown;
  }
  return text;
}

std::string blocked_text(const MergedReport& report) {
  std::map<std::string, std::string> ids_of;
  for (const auto& [id, coverage] : report.coverage) {
    if (coverage.state != CoverageState::kBlocked) continue;
    std::string& ids = ids_of[coverage.why.empty() ? "no reason recorded" : coverage.why];
    ids += (ids.empty() ? "" : ", ") + id;
  }
  std::string text;
  for (const auto& [why, ids] : ids_of) {
    text += fmt::format("  blocked: {}: {}\n", escape_terminal(ids), escape_terminal(why));
  }
  return text;
}

/// `  input: …` for each line, and how many more there are.
std::string labelled_lines(std::string_view label, const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kShownRemarks); ++i) {
    text += fmt::format("  {}: {}\n", label, escape_terminal(lines[i]));
  }
  if (lines.size() <= kShownRemarks) return text;
  return text + fmt::format("  {}: {} more\n", label, lines.size() - kShownRemarks);
}

}  // namespace

std::string describe(const ReadProblem& problem) {
  if (problem.line == 0) {
    return escape_terminal(fmt::format("{}: {}", problem.path, problem.text));
  }
  return escape_terminal(fmt::format("{}:{}: {}", problem.path, problem.line, problem.text));
}

std::string render_remarks(const MergedReport& report) {
  std::vector<std::string> lines = report.remarks;
  for (const auto& file : report.skipped_files) {
    lines.push_back(file.path + " was skipped: " + file.why);
  }
  return labelled_lines("input", lines);
}

std::string render_leftovers(const MergedReport& report) {
  std::vector<std::string> lines;
  for (const auto& left : report.leftover_suppressions) lines.push_back(leftover_words(left));
  return labelled_lines("suppression", lines);
}

std::string render_last_line(const MergedReport& report, const RenderOptions& options) {
  std::string text = "ddpscope: " + count_words(report);
  if (const Finding* primary = primary_finding(report)) {
    text += "; primary " + escape_terminal(primary->id);
    const std::string place = place_of(*primary, report.models.size() > 1);
    if (!place.empty()) text += " in " + escape_terminal(place);
  }
  if (!options.report_path.empty()) text += "; report: " + escape_terminal(options.report_path);
  return text + "\n";
}

std::string render_verdict(const MergedReport& report, const RenderOptions& options) {
  std::string text;
  if (!options.brief) {
    const CoverageCounts counts = count_coverage(report);
    text += fmt::format("checks: {} run, {} passed, {} failed, {} blocked\n", counts.run,
                        counts.passed, counts.failed, counts.blocked);
    text += blocked_text(report);
    text += render_remarks(report);
    const std::string overhead = overhead_words(report.overhead);
    if (!overhead.empty()) text += "overhead: " + overhead + "\n";
    const std::string leftovers = render_leftovers(report);
    if (report.suppressed > 0 || !leftovers.empty()) {
      text += fmt::format("suppressed: {}\n", report.suppressed) + leftovers;
    }
  }
  if (!report.incidents.empty()) {
    text += incident_text(report.incidents.front(), index_of(report), style_of(report, options),
                          options.brief);
  }
  return text + render_last_line(report, options);
}

std::string render_console(const MergedReport& report, const RenderOptions& options) {
  const ByFingerprint index = index_of(report);
  const FindingStyle style = style_of(report, options);
  std::string text;
  for (std::size_t i = 1; i < report.incidents.size(); ++i) {
    text += incident_text(report.incidents[i], index, style, options.brief);
  }
  if (options.show_suppressed) {
    for (const auto& finding : report.findings) {
      if (finding.suppressed) text += render_finding(finding, style);
    }
  }
  if (!text.empty()) text += "\n";
  return text + render_verdict(report, options);
}

}  // namespace ddpscope
