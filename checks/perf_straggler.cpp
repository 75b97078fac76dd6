#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "checks/check.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
using enum Applicability;

double ratio_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

constexpr double kClearly = 0.25;  // of what is lost
constexpr double kAlmostALine = 0.5;
constexpr double kAsLarge = 0.1;  // of a batch

/// How what is lost went through the window.
const char* trend_word(const Straggler& slow) {
  const Trend trend = trend_of(slow.lost_per_part);
  const double change = trend.slope * static_cast<double>(slow.lost_per_part.size());
  if (trend.fit < kAlmostALine || std::abs(change) < kClearly * slow.lost_ms) return "steady";
  return change > 0 ? "rising" : "falling";
}

bool has_batches_alike(const Straggler& slow) {
  return slow.batch_ratio > 0 && std::abs(slow.batch_ratio - 1) <= kAsLarge;
}

Phase phase_of(const Straggler& slow) {
  static const std::map<std::string, Phase> phases = {{"data", Phase::kForward},
                                                      {"forward", Phase::kForward},
                                                      {"backward", Phase::kBackward},
                                                      {"optimizer", Phase::kOptimizer}};
  const auto found = phases.find(slow.phase);
  return found == phases.end() ? Phase::kReduce : found->second;
}

std::vector<Fix> fixes_for(const Straggler& slow) {
  std::vector<Fix> fixes;
  if (slow.phase == "data") {
    fixes.push_back({"more loader workers on that rank, or data as near as the others'", kLikely});
  } else if (!has_batches_alike(slow)) {
    fixes.push_back({"compare the shapes of its batches with those of the others", kLikely});
  }
  fixes.push_back({"look at the other processes of its host, and at its cores", kLikely});
  fixes.push_back({"look at the clocks and the temperature of its device", kNeedsDecision});
  return fixes;
}

Finding describe(const Straggler& slow) {
  Finding finding = finding_on({slow.rank}, slow.step);
  finding.severity = Severity::kWarning;
  finding.phase = phase_of(slow);
  finding.what = fmt::format("rank {} costs {:.3g} ms per step ({:.0f} %)", slow.rank, slow.lost_ms,
                             100 * ratio_of(slow.lost_ms, slow.step_ms));
  if (!slow.phase.empty()) {
    finding.what += fmt::format(", lost in {} ({:.3g} ms, others {:.3g} ms)", slow.phase,
                                slow.phase_ms, slow.others_ms);
  }
  finding.why = fmt::format(
      "it comes last to the first collective in {} of {} steps; the others wait for it there",
      slow.late, slow.steps);
  const std::string trend = trend_word(slow);
  if (trend != "steady") finding.why += "; what it costs is " + trend;
  if (has_batches_alike(slow)) {
    finding.why += "; its batches are as large as the others'";
  } else if (slow.batch_ratio > 0) {
    finding.why += fmt::format("; its batches have {:.2g} times the elements of the others'",
                               slow.batch_ratio);
  }
  finding.fixes = fixes_for(slow);
  const double late = ratio_of(static_cast<double>(slow.late), static_cast<double>(slow.steps));
  finding.facts = {
      {fact::kCulpritRank, slow.rank}, {fact::kLateRatio, late},
      {fact::kLostMs, slow.lost_ms},   {fact::kShareRatio, ratio_of(slow.lost_ms, slow.step_ms)},
      {fact::kStepMs, slow.step_ms},   {fact::kTrend, trend}};
  if (slow.batch_ratio > 0) {
    finding.facts.push_back({fact::kBatchElementsRatio, slow.batch_ratio});
  }
  if (!slow.phase.empty()) finding.facts.push_back({fact::kPhase, slow.phase});
  return finding;
}

/// perf-straggler; docs/checks/perf-straggler.md
class PerfStraggler final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      for (const Straggler& slow : cohort.stragglers) findings.push_back(describe(slow));
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_perf_straggler() { return std::make_unique<PerfStraggler>(); }

}  // namespace ddpscope
