#include "checks/ranks_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "checks/clip_factors.h"
#include "checks/disabled_text.h"
#include "checks/rank_links.h"
#include "checks/running_statistics.h"
#include "checks/spread_nonfinite.h"
#include "config/glob.h"
#include "model/fact_keys.h"
#include "model/fingerprint.h"

namespace ddpscope {
namespace {
constexpr std::string_view kHang = "collective-hang";  // one rank may wait for the others

/// Empty if the ranks left what the check compares.
std::string why_blocked(const CheckRow& row, const RanksComparedEvent& run) {
  if (run.world_size < 2) return "one rank";
  for (std::string_view need : split_list(row.needs)) {
    if (need.ends_with('?')) need.remove_suffix(1);
    const bool of_rings = need == "calls" || need == "digests";
    if (of_rings && run.with_ring.size() < (row.id == kHang ? 1 : 2)) {
      return fmt::format("{} of {} ranks left a ring", run.with_ring.size(), run.world_size);
    }
    if (need == "calls" && run.calls == 0) return "no rank noted a collective";
    if (need == "digests" && run.digests == 0) return "no rank noted a step";
    if (need == "models" && !run.has_models) return "no model was seen on any rank";
  }
  return {};
}

Finding off_finding(const std::string& id, const std::string& why) {
  Finding finding = about_thrown(id, why);
  finding.phase = Phase::kExit;
  finding.why =
      "the fault is the tool's own; training is not affected, what this check would find over all "
      "ranks is not reported";
  return finding;
}

void complete(Finding& finding, const RanksJudgeOptions& options) {
  if (finding.first_step == 0) finding.first_step = finding.step;
  finding.last_step = std::max(finding.last_step, finding.step);
  if (finding.ranks.empty()) finding.ranks = {finding.rank};
  finding.fingerprint = fingerprint_of(finding);
  options.decide_suppressed(finding);
}

/// By one of its ranks: what a rank said of itself is more exact, but for how it differs from
/// others.
bool is_told(const Finding& found, const RanksJudgeOptions& options) {
  if (std::ranges::count(found.facts, fact::kRankPatterns, &Fact::key) > 0) return false;
  return std::ranges::any_of(options.of_ranks, [&found](const Finding* own) {
    return own->id == found.id && std::ranges::count(found.ranks, own->rank) > 0;
  });
}

void run_check(const CheckRow& row, const RanksComparedEvent& run, CheckCoverage& coverage,
               Findings& findings) {
  std::string fault;
  try {
    row.factory()->on_ranks_compared(run, findings);
    for (Finding& finding : findings) finding.id = row.id;
    if (!findings.empty()) coverage.state = CheckState::kFailed;
    return;
  } catch (const std::exception& error) {
    fault = fmt::format("threw \"{}\"", error.what());
  } catch (...) {
    fault = "threw an unknown exception";
  }
  findings = {off_finding(std::string(row.id), fault)};
  coverage = {.state = CheckState::kOff, .why = fault};
}
}  // namespace

RanksJudgement judge_ranks(const RanksComparedEvent& run, const RanksJudgeOptions& options) {
  return judge_ranks(run, options, check_table());
}

RanksJudgement judge_ranks(const RanksComparedEvent& run, const RanksJudgeOptions& options,
                           std::span<const CheckRow> table) {
  RanksJudgement judgement;
  for (const CheckRow& row : table) {
    const std::string id(row.id);
    const bool is_ours = is_over_ranks(row) || is_also_over_ranks(row);
    if (row.factory == nullptr || !is_ours || !options.enabled.contains(id)) continue;
    CheckCoverage coverage;
    coverage.why = why_blocked(row, run);
    Findings findings;
    if (coverage.why.empty()) {
      run_check(row, run, coverage, findings);
    } else {
      coverage.state = CheckState::kBlocked;
    }
    if (is_also_over_ranks(row)) {
      std::erase_if(findings, [&](const Finding& found) { return is_told(found, options); });
    }
    // What single ranks said of it stands where all together add nothing, but not where several
    // could not be compared.
    const bool could_not = coverage.state == CheckState::kBlocked && run.world_size > 1;
    if (is_over_ranks(row) || !findings.empty() || could_not) judgement.coverage[id] = coverage;
    for (Finding& finding : findings) {
      complete(finding, options);
      judgement.findings.push_back(std::move(finding));
    }
  }
  std::vector<Finding*> all = options.of_ranks;
  for (Finding& finding : judgement.findings) all.push_back(&finding);
  fold_spread_nonfinite(run, all);
  suspect_hosts(run, all);
  tell_clip_factors(run, all);
  link_over_ranks(all);
  raise_local_norms(all);
  return judgement;
}

}  // namespace ddpscope
