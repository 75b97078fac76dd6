#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "report/merged_report.h"

namespace ddpscope {
namespace {

/// What comes first in a report comes first in this order.
auto weight(const Finding& finding) {
  const bool initiating = finding.causal_role == CausalRole::kInitiating;
  return std::tuple(finding.suppressed, -static_cast<int>(finding.severity), !initiating,
                    finding.step, std::string_view(finding.id),
                    std::string_view(finding.module_path), std::string_view(finding.fingerprint));
}

using Causes = std::map<std::string, std::string>;

Causes causes_of(const MergedReport& report) {
  std::set<std::string> present;
  for (const auto& finding : report.findings) {
    if (!finding.suppressed) present.insert(finding.fingerprint);
  }
  Causes causes;
  for (const auto& finding : report.findings) {
    const bool known = finding.caused_by != finding.fingerprint && present.count(finding.caused_by);
    if (!finding.suppressed) causes[finding.fingerprint] = known ? finding.caused_by : "";
  }
  return causes;
}

/// The first cause of every finding. A circle is broken where the walk closes it.
Causes roots_of(const Causes& causes) {
  Causes roots;
  for (const auto& [start, cause] : causes) {
    std::vector<std::string> path = {start};
    std::set<std::string> seen = {start};
    std::string next = cause;
    while (!next.empty() && roots.count(next) == 0 && seen.insert(next).second) {
      path.push_back(next);
      next = causes.at(next);
    }
    const std::string root = roots.count(next) != 0 ? roots[next] : path.back();
    for (const auto& member : path) roots.try_emplace(member, root);
  }
  return roots;
}

void count(MergedReport& report) {
  report.counts_by_id.clear();
  report.errors = report.warnings = report.notes = report.suppressed = 0;
  for (const auto& finding : report.findings) {
    if (finding.suppressed) {
      ++report.suppressed;
      continue;
    }
    ++report.counts_by_id[finding.id];
    report.errors += finding.severity == Severity::kError;
    report.warnings += finding.severity == Severity::kWarning;
    report.notes += finding.severity == Severity::kNote;
  }
}

}  // namespace

void judge_again(MergedReport& report) {
  std::ranges::sort(report.findings,
                    [](const Finding& a, const Finding& b) { return weight(a) < weight(b); });
  count(report);

  const Causes roots = roots_of(causes_of(report));
  std::map<std::string, Incident> incidents;
  std::vector<std::string> order;
  for (const auto& finding : report.findings) {
    if (finding.suppressed) continue;
    const std::string& root = roots.at(finding.fingerprint);
    const auto [incident, is_new] = incidents.try_emplace(root, Incident{.primary = root});
    if (is_new) order.push_back(root);  // what weighs most in it gives an incident its place
    if (root != finding.fingerprint) incident->second.members.push_back(finding.fingerprint);
  }
  report.incidents.clear();
  for (const auto& root : order) report.incidents.push_back(std::move(incidents[root]));
  report.primary = order.empty() ? "" : order.front();
}

const Finding* primary_finding(const MergedReport& report) {
  if (report.primary.empty()) return nullptr;
  const auto found = std::ranges::find(report.findings, report.primary, &Finding::fingerprint);
  return found == report.findings.end() ? nullptr : &*found;
}

int exit_code(const MergedReport& report, Severity fail_on,
              const std::vector<std::string>& named_checks) {
  const auto fails = [fail_on](const Finding& finding) {
    return !finding.suppressed && finding.severity >= fail_on;
  };
  if (std::ranges::any_of(report.findings, fails)) return 1;
  const auto is_blocked = [&report](const std::string& id) {
    const auto found = report.coverage.find(id);
    return found != report.coverage.end() && found->second.state == CoverageState::kBlocked;
  };
  const bool incomplete =
      !report.missing_ranks.empty() || std::ranges::any_of(named_checks, is_blocked);
  return incomplete ? 4 : 0;
}

}  // namespace ddpscope
