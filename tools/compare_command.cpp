#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "records/record_json.h"
#include "records/utf8.h"
#include "report/report_writer.h"
#include "report/wording.h"
#include "tools/command.h"
#include "tools/report_input.h"
#include "tools/report_output.h"

namespace ddpscope {
namespace {
struct CompareArguments {
  std::string before;
  std::string after;
  bool json = false;
  std::string fail_on = "error";
  std::string suppressions;
};

/// By fingerprint. What is suppressed and in one of them alone is in none.
struct Difference {
  std::vector<const Finding*> added;
  std::vector<const Finding*> fixed;
  std::vector<const Finding*> persisting;
};

using Known = std::map<std::string_view, const Finding*>;

Known known_in(const MergedReport& report) {
  Known known;
  for (const Finding& finding : report.findings) known[finding.fingerprint] = &finding;
  return known;
}

Difference difference_of(const MergedReport& before, const MergedReport& after) {
  const Known then = known_in(before);
  const Known now = known_in(after);
  Difference difference;
  for (const Finding& finding : after.findings) {
    if (then.contains(finding.fingerprint)) {
      difference.persisting.push_back(&finding);
    } else if (!finding.suppressed) {
      difference.added.push_back(&finding);
    }
  }
  for (const Finding& finding : before.findings) {
    if (finding.suppressed || now.contains(finding.fingerprint)) continue;
    difference.fixed.push_back(&finding);
  }
  return difference;
}

std::string lines_of(std::string_view title, const std::vector<const Finding*>& findings,
                     const FindingStyle& style) {
  if (findings.empty()) return {};
  std::string text = fmt::format("{}:\n", title);
  for (const Finding* finding : findings) text += render_place_line(*finding, style);
  return text + "\n";
}

std::string as_text(const Difference& difference, bool with_model) {
  const FindingStyle style{.colour = prints_to_terminal(), .with_model = with_model};
  std::string text = lines_of("fixed", difference.fixed, style) +
                     lines_of("persisting", difference.persisting, style);
  if (!difference.added.empty()) text += "new:\n";
  for (const Finding* finding : difference.added) text += render_finding(*finding, style);
  if (!difference.added.empty()) text += "\n";
  return text + fmt::format("ddpscope: {} new, {} fixed, {} persisting\n", difference.added.size(),
                            difference.fixed.size(), difference.persisting.size());
}

std::string as_json(const Difference& difference) {
  nlohmann::ordered_json json;
  const auto put = [&json](const char* key, const std::vector<const Finding*>& findings) {
    json[key] = nlohmann::ordered_json::array();
    for (const Finding* finding : findings) {
      json[key].push_back(to_json(*finding));
      json[key].back().erase("record");
    }
  };
  put("new", difference.added);
  put("fixed", difference.fixed);
  put("persisting", difference.persisting);
  return json.dump(2, ' ', /*ensure_ascii=*/true) + "\n";
}

JudgedReport read_side(const std::string& path, const std::string& suppressions) {
  auto judged = read_report_at(path, suppressions);
  require_files(judged, path);
  return judged;
}

/// As for the later report, of which the new findings alone count.
int code_of(JudgedReport judged, const JudgedReport& before, const Difference& difference,
            Severity fail_on) {
  Known added;
  for (const Finding* finding : difference.added) added[finding->fingerprint] = finding;
  judged.unusable.insert(judged.unusable.end(), before.unusable.begin(), before.unusable.end());
  std::erase_if(judged.report.findings,
                [&added](const Finding& finding) { return !added.contains(finding.fingerprint); });
  return judged_exit_code(judged, fail_on);
}

int compare(const CompareArguments& options) {
  const auto fail_on = severity_of(options.fail_on);
  const auto before = read_side(options.before, options.suppressions);
  const auto after = read_side(options.after, options.suppressions);
  const Difference difference = difference_of(before.report, after.report);
  const bool with_model = after.report.models.size() > 1;
  print(options.json ? as_json(difference) : as_text(difference, with_model));
  return code_of(after, before, difference, fail_on);
}
}  // namespace

CommandAction make_compare_command(CLI::App& app) {
  const auto options = std::make_shared<CompareArguments>();
  app.add_option("A", options->before, "The earlier report: a folder, rank file or report.json")
      ->required();
  app.add_option("B", options->after, "The later one")->required();
  app.add_flag("--json", options->json, "Print JSON with the lists new, fixed and persisting");
  app.add_option("--fail-on", options->fail_on,
                 "Least severity of a new finding that makes the exit code 1: error, warning or "
                 "note");
  app.add_option("--suppressions", options->suppressions, "Suppressions file, for both")
      ->type_name("FILE");
  app.footer("Findings are the same where their fingerprints are.");
  return [options](const CommandContext&) { return compare(*options); };
}

}  // namespace ddpscope
