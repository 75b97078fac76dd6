#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "checks/check.h"
#include "checks/check_table.h"
#include "checks/finding_text.h"
#include "config/glob.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::size_t kListedIds = 12;

/// The checks that cannot do without these.
std::vector<std::string> checks_that_need(const std::vector<std::string>& sources) {
  std::vector<std::string> ids;
  for (const CheckRow& row : check_table()) {
    const auto needs = split_list(row.needs);
    if (std::ranges::find_first_of(needs, sources) != needs.end()) ids.emplace_back(row.id);
  }
  return ids;
}

/// tool-hook-refused; docs/checks/tool-hook-refused.md
class ToolHookRefused final : public Check {
 public:
  void on_hook_refused(const HookRefusedEvent& event, const RunState&,
                       Findings& findings) override {
    if (!said_.insert(event.point + event.reason).second) return;
    const bool blind = event.fallback.empty();
    const std::vector<std::string> ids =
        blind ? checks_that_need(event.sources) : std::vector<std::string>();
    Finding finding;
    finding.severity = Severity::kNote;
    finding.phase = Phase::kInit;
    finding.subject = event.point;
    const std::string of =
        event.occupied_count == 0 ? "" : fmt::format(" ({})", event.occupied_count);
    finding.what = fmt::format("{}{} {}; {}", event.point, of, event.reason,
                               blind ? "nothing takes their place" : event.fallback + " instead");
    finding.why = "such a point is left as it is: replacing it would change the program";
    if (ids.size() > kListedIds) {
      finding.why += fmt::format("; {} checks cannot run", ids.size());
    } else if (!ids.empty()) {
      finding.why += "; these checks cannot run: " + joined(ids);
    }
    finding.fixes = {
        {"attach before the program sets its own hooks", Applicability::kLikely},
        {"link LibTorch and ddpscope dynamically, or use ddpscope run", Applicability::kLikely}};
    if (!event.fix.empty()) {
      finding.fixes = {{event.fix + "; or use ddpscope run", Applicability::kLikely}};
    }
    finding.facts = {{fact::kPoint, event.point},
                     {fact::kOccupiedCount, event.occupied_count},
                     {fact::kFallback, event.fallback},
                     {fact::kBlindIds, as_fact(ids)}};
    if (event.built_version != event.running_version) {
      finding.what += fmt::format("; built for LibTorch {}, the program runs {}",
                                  event.built_version, event.running_version);
      finding.fixes = {
          {"use the ddpscope that was built for this LibTorch", Applicability::kLikely}};
    }
    finding.facts.push_back({fact::kBuiltVersion, event.built_version});
    finding.facts.push_back({fact::kRunningVersion, event.running_version});
    findings.push_back(std::move(finding));
  }

 private:
  std::set<std::string> said_;
};
}  // namespace

std::unique_ptr<Check> make_tool_hook_refused() { return std::make_unique<ToolHookRefused>(); }

}  // namespace ddpscope
