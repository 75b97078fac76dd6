#include <fmt/format.h>

#include <memory>
#include <string>

#include "checks/check.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

Finding describe_random(const SameRandom& same, const Cohort& cohort) {
  Finding finding = finding_on(same.ranks, same.step);
  finding.severity = cohort.averages ? Severity::kWarning : Severity::kNote;
  finding.phase = Phase::kForward;
  finding.module_path = same.module;
  finding.op = same.op;
  finding.what =
      fmt::format("all {} ranks draw from seed {}, in the same state in {} surveyed steps",
                  same.ranks.size(), same.seed, same.steps);
  const bool drops = same.op.find("dropout") != std::string::npos;
  finding.why = fmt::format(
      "every rank has the same seed, so they {}: noise that averaging over ranks is to even out "
      "stays",
      drops ? "drop the same elements" : "draw the same numbers");
  finding.fixes = {
      {fmt::format("build and broadcast the model, then `torch::manual_seed({} + rank)`; without "
                   "the broadcast the initial weights would differ",
                   same.seed),
       kLikely},
      {"ranks of tensor parallelism, which need equal seeds: Attachment::declare with kSharedData",
       kNeedsDecision}};
  finding.facts = {{fact::kSeed, same.seed},
                   {fact::kEqualRanks, as_fact(same.ranks)},
                   {fact::kStepsCount, same.steps}};
  return finding;
}

/// rank-rng-same; docs/checks/rank-rng-same.md
class RankRngSame final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      for (const SameRandom& same : cohort.same_random) {
        findings.push_back(describe_random(same, cohort));
      }
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_rank_rng_same() { return std::make_unique<RankRngSame>(); }

}  // namespace ddpscope
