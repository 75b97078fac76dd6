#include <fmt/format.h>

#include <map>

#include "report/escape.h"
#include "report/report_writer.h"

namespace ddpscope {
namespace {
struct CaseFindings {
  std::vector<const Finding*> failing;
  std::vector<const Finding*> others;  ///< below the threshold, or suppressed
};
using FindingsById = std::map<std::string_view, CaseFindings>;

FindingsById findings_by_id(const MergedReport& report, Severity fail_on) {
  FindingsById by_id;
  for (const Finding& finding : report.findings) {
    auto& own = by_id[finding.id];
    const bool fails = !finding.suppressed && finding.severity >= fail_on;
    (fails ? own.failing : own.others).push_back(&finding);
  }
  return by_id;
}

/// As the console has them; every line is escaped by itself.
std::string texts_of(const std::vector<const Finding*>& findings, bool with_model) {
  std::string text;
  for (const Finding* finding : findings) {
    const std::string lines = render_finding(*finding, {.with_model = with_model});
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = lines.find('\n', begin);
      text += escape_xml(std::string_view(lines).substr(begin, end - begin)) + "\n";
      begin = end + 1;
    }
  }
  return text;
}

std::string failure(const std::vector<const Finding*>& findings, bool with_model) {
  std::string message = findings.front()->what;
  if (findings.size() > 1) message += fmt::format(" (and {} more)", findings.size() - 1);
  return fmt::format("<failure type=\"{}\" message=\"{}\">{}</failure>\n",
                     escape_xml(findings.front()->id), escape_xml(message),
                     texts_of(findings, with_model));
}

/// What stands in the element of one check; empty where it passed in silence.
std::string outcome(const Coverage& coverage, const CaseFindings& findings, bool with_model) {
  std::string text;
  if (!findings.failing.empty()) {
    text += failure(findings.failing, with_model);
  } else if (coverage.state == CoverageState::kBlocked) {
    text += fmt::format("<skipped message=\"{}\"/>\n", escape_xml(coverage.why));
  }
  if (findings.others.empty()) return text;
  return text + "<system-out>" + texts_of(findings.others, with_model) + "</system-out>\n";
}

std::string test_case(const std::string& id, const std::string& outcome) {
  const std::string group = id.substr(0, id.find('-'));
  std::string text = fmt::format("<testcase classname=\"ddpscope.{}\" name=\"{}\" time=\"0\"",
                                 escape_xml(group), escape_xml(id));
  return outcome.empty() ? text + "/>\n" : text + ">\n" + outcome + "</testcase>\n";
}
}  // namespace

std::string render_junit(const MergedReport& report, const RenderOptions& options) {
  const bool with_model = report.models.size() > 1;
  FindingsById by_id = findings_by_id(report, options.fail_on);
  std::string cases;
  std::size_t failures = 0;
  std::size_t skipped = 0;
  for (const auto& [id, coverage] : report.coverage) {
    const CaseFindings& findings = by_id[id];
    const bool fails = !findings.failing.empty();
    failures += fails;
    skipped += !fails && coverage.state == CoverageState::kBlocked;
    cases += test_case(id, outcome(coverage, findings, with_model));
  }
  const std::string counts = fmt::format("tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\"",
                                         report.coverage.size(), failures, skipped);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n<testsuite "
      "name=\"ddpscope\" {0}>\n{1}</testsuite>\n</testsuites>\n",
      counts, cases);
}

}  // namespace ddpscope
