#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/merged_report.h"

namespace ddpscope {

/// What a reader of another tool is told of a check.
struct RuleText {
  std::string_view id;
  Severity severity = Severity::kWarning;
  std::string_view summary;
  std::string_view page;  ///< Markdown, or empty
};

struct RenderOptions {
  bool colour = false;                  ///< console: escape sequences for colour
  bool brief = false;                   ///< console: place lines and the last line only
  bool show_suppressed = false;         ///< console: also findings that are suppressed
  std::string report_path;              ///< console: the report that the last line names, or empty
  Severity fail_on = Severity::kError;  ///< junit: least severity that is a failure
  std::span<const RuleText> rules;      ///< sarif: of all checks
};

#define DDPSCOPE_FORMAT(name, file, summary) \
  std::string render_##name(const MergedReport& report, const RenderOptions& options);
#include "report/formats.def"
#undef DDPSCOPE_FORMAT

struct Format {
  std::string_view name;
  std::string_view file;  ///< default name in the report folder, or empty
  std::string_view summary;
  std::string (*render)(const MergedReport&, const RenderOptions&);
};
/// All rows of formats.def.
std::span<const Format> formats();

struct FindingStyle {
  bool colour = false;
  bool with_model = false;  ///< several models are attached: the label stands before the path
};
/// One finding as console text, ending in a newline.
std::string render_finding(const Finding& finding, const FindingStyle& style = {});
/// Its first line alone.
std::string render_place_line(const Finding& finding, const FindingStyle& style = {});

/// `out/rank-3.jsonl:17: text` as one terminal line.
std::string describe(const ReadProblem& problem);

/// What a reader must know of the input, and the suppressions without effect; a line each.
std::string render_remarks(const MergedReport& report);
std::string render_leftovers(const MergedReport& report);

/// The block that ends a console report, and its last line alone.
std::string render_verdict(const MergedReport& report, const RenderOptions& options);
std::string render_last_line(const MergedReport& report, const RenderOptions& options);

}  // namespace ddpscope
