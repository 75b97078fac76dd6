#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "records/record_json.h"
#include "records/utf8.h"
#include "records/words.h"
#include "report/escape.h"
#include "report/report_writer.h"
#include "report/wording.h"

namespace ddpscope {
namespace {
using Sarif = nlohmann::ordered_json;

Sarif message_of(const std::string& text) { return {{"text", valid_utf8(text)}}; }

/// A relative path is one below the folder of the sources.
Sarif physical_location(const Frame& frame) {
  const std::string file = file_of(frame);
  const bool is_relative = !file.starts_with('/');
  Sarif artifact = {{"uri", (is_relative ? "" : "file://") + escape_uri(file)}};
  if (is_relative) artifact["uriBaseId"] = "SRCROOT";
  Sarif region = {{"startLine", frame.line}};
  if (!frame.source.empty()) region["snippet"] = message_of(frame.source);
  return {{"artifactLocation", artifact}, {"region", region}};
}

Sarif logical_location(const std::string& name, const char* kind) {
  return {{"fullyQualifiedName", valid_utf8(name)}, {"kind", kind}};
}

/// A site, with its line where that is known.
Sarif site_location(const Site& site) {
  const SitePlace at = place_of(site);
  Sarif location = Sarif::object();
  if (const Frame* frame = line_of(site)) location["physicalLocation"] = physical_location(*frame);
  if (!at.function.empty()) {
    location["logicalLocations"] = {logical_location(at.function, "function")};
  }
  const std::string where = at.function.empty() ? at.place : at.function;
  location["message"] = message_of(site.role + ": " + where);
  return location;
}

Sarif locations_of(const Finding& finding, bool with_model) {
  Sarif location = Sarif::object();
  if (const Site* site = main_site(finding)) {
    location["physicalLocation"] = physical_location(*line_of(*site));
  }
  const std::string place = place_of(finding, with_model);
  if (!place.empty()) location["logicalLocations"] = {logical_location(place, "module")};
  return location.empty() ? Sarif::array() : Sarif::array({location});
}

/// In the order in which they happened: what is used was saved and changed before.
std::vector<const Site*> sites_in_time(const Finding& finding) {
  constexpr std::array<std::string_view, 6> kRoles = {"created", "registered", "called",
                                                      "saved",   "changed",    "used"};
  std::vector<const Site*> sites;
  for (const Site& site : finding.sites) sites.push_back(&site);
  std::ranges::stable_sort(sites, {},
                           [&](const Site* site) { return std::ranges::find(kRoles, site->role); });
  return sites;
}

Sarif code_flows(const Finding& finding) {
  Sarif steps = Sarif::array();
  for (const Site* site : sites_in_time(finding)) {
    steps.push_back({{"location", site_location(*site)}, {"executionOrder", steps.size() + 1}});
  }
  return {{{"threadFlows", {{{"locations", steps}}}}}};
}

Sarif related_locations(const Finding& finding) {
  Sarif list = Sarif::array();
  for (const Site& site : finding.sites) {
    if (line_of(site) == nullptr) continue;
    Sarif location = {{"id", list.size() + 1}};
    location.update(site_location(site));
    list.push_back(std::move(location));
  }
  return list;
}

/// Its place is said once: by file and line, else in words.
Sarif stack_frame(const Frame& frame) {
  Sarif location = Sarif::object();
  if (!frame.file.empty() && frame.line > 0) {
    location["physicalLocation"] = physical_location(frame);
  } else {
    location["message"] = message_of(place_of(frame));
  }
  if (!frame.function.empty()) {
    location["logicalLocations"] = {logical_location(frame.function, "function")};
  }
  const auto slash = frame.module.rfind('/');
  return {{"location", location}, {"module", valid_utf8(frame.module.substr(slash + 1))}};
}

Sarif stacks_of(const Finding& finding) {
  Sarif stacks = Sarif::array();
  for (const Site& site : finding.sites) {
    Sarif frames = Sarif::array();
    for (const Frame& frame : site.frames) {
      frames.push_back(stack_frame(frame));
    }
    if (!frames.empty()) {
      stacks.push_back({{"message", message_of(site.role)}, {"frames", frames}});
    }
  }
  return stacks;
}

std::string text_of(const Finding& finding) {
  std::string text =
      fmt::format("{} step {}: {}", rank_words(ranks_of(finding)), finding.step, finding.what);
  if (!finding.why.empty()) text += "\nwhy: " + finding.why;
  for (const Fix& fix : fixes_in_order(finding)) {
    text += fmt::format("\nfix: ({}) {}", applicability_words(fix.applicability), fix.text);
  }
  return text;
}

Sarif properties_of(const Finding& finding) {
  const Sarif record = to_json(finding);
  Sarif properties = Sarif::object();
  for (const char* key : {"confidence", "evidence_status", "causal_role", "step", "phase", "model",
                          "module_path", "subject", "op", "first_step", "last_step", "caused_by"}) {
    properties[key] = record.at(key);
  }
  properties["ranks"] = ranks_of(finding);
  properties["facts"] = record.at("facts");
  return properties;
}

Sarif result_of(const Finding& finding, const RenderOptions& options, bool with_model) {
  Sarif result = {{"ruleId", valid_utf8(finding.id)}};
  const auto rule = std::ranges::find(options.rules, finding.id, &RuleText::id);
  if (rule != options.rules.end()) result["ruleIndex"] = rule - options.rules.begin();
  result["level"] = word(finding.severity);
  result["message"] = message_of(text_of(finding));
  result["locations"] = locations_of(finding, with_model);
  if (finding.sites.size() > 1) result["codeFlows"] = code_flows(finding);
  result["relatedLocations"] = related_locations(finding);
  result["stacks"] = stacks_of(finding);
  result["occurrenceCount"] = std::max<std::int64_t>(finding.occurrences, 1);
  result["partialFingerprints"] = {{"ddpscope/v1", valid_utf8(finding.fingerprint)}};
  result["suppressions"] = Sarif::array();
  if (finding.suppressed) {
    Sarif suppression = {{"kind", "external"}, {"status", "accepted"}};
    if (!finding.suppression_reason.empty()) {
      suppression["justification"] = valid_utf8(finding.suppression_reason);
    }
    result["suppressions"].push_back(std::move(suppression));
  }
  result["properties"] = properties_of(finding);
  return result;
}

Sarif rules_of(const RenderOptions& options) {
  Sarif rules = Sarif::array();
  for (const RuleText& rule : options.rules) {
    const std::string page(rule.page.empty() ? rule.summary : rule.page);
    rules.push_back({{"id", rule.id},
                     {"shortDescription", message_of(std::string(rule.summary))},
                     {"help", {{"text", page}, {"markdown", page}}},
                     {"defaultConfiguration", {{"level", word(rule.severity)}}}});
  }
  return rules;
}

/// What a reader must know of the input stands beside the results.
Sarif invocation_of(const MergedReport& report) {
  Sarif notes = Sarif::array();
  for (const auto& remark : report.remarks) {
    notes.push_back({{"level", "note"}, {"message", message_of(remark)}});
  }
  for (const auto& file : report.skipped_files) {
    notes.push_back(
        {{"level", "warning"}, {"message", message_of(file.path + " was skipped: " + file.why)}});
  }
  return {{"executionSuccessful", true}, {"toolExecutionNotifications", notes}};
}

std::string dumped(const Sarif& json) {
  return json.dump(-1, ' ', false, Sarif::error_handler_t::replace);
}
}  // namespace

// One line per result: with each member on a line of its own most of the file were spaces.
std::string render_sarif(const MergedReport& report, const RenderOptions& options) {
  Sarif driver = {{"name", "ddpscope"}, {"rules", rules_of(options)}};
  if (!report.tool_version.empty()) driver["version"] = valid_utf8(report.tool_version);
  const Sarif run = {{"tool", {{"driver", driver}}},
                     {"automationDetails", {{"id", "ddpscope/" + valid_utf8(report.run_id)}}},
                     {"originalUriBaseIds",
                      {{"SRCROOT", {{"description", message_of("where the merge was run")}}}}},
                     {"invocations", {invocation_of(report)}}};
  std::string text =
      "{\"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\",\n"
      "\"version\": \"2.1.0\",\n\"runs\": [\n" +
      dumped(run);
  text.back() = ',';  // the object of the run goes on
  text += "\n\"results\": [";
  const char* between = "\n";
  for (const Finding& finding : report.findings) {
    text += std::exchange(between, ",\n");
    text += dumped(result_of(finding, options, report.models.size() > 1));
  }
  return text + "\n]}\n]}\n";
}

}  // namespace ddpscope
