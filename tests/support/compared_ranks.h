#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "checks/ranks_judge.h"

namespace ddpscope::test {

/// Four ranks of one cohort that average gradients, have run 100 steps alike and left rings.
inline RanksComparedEvent four_ranks() {
  RanksComparedEvent run{.world_size = 4, .with_ring = {0, 1, 2, 3}, .digests = 400, .calls = 4000};
  Cohort cohort{
      .ranks = {0, 1, 2, 3}, .averages = true, .equal_at_start = true, .exchanges_tensors = true};
  cohort.compared_steps = 100;
  for (const std::int64_t rank : cohort.ranks) {
    cohort.counts.push_back({.rank = rank,
                             .step = 100,
                             .forwards = 100,
                             .backwards = 100,
                             .optimizer_steps = 100,
                             .calls = 1000});
    run.endings.ranks.push_back({.rank = rank, .step = 100});
    run.stands.push_back({.rank = rank, .step = 101});
  }
  run.endings.world_size = 4;
  run.cohorts = {std::move(cohort)};
  return run;
}

/// A step in which all sampled gradients differ between ranks, after so many calls.
inline ReductionStep differing_step(std::int64_t calls = 4) {
  return {.step = 2,
          .sampled = 6,
          .calls = calls,
          .backwards = 1,
          .reduces_last = true,
          .differing = 6,
          .first_differing = {.model = "Net", .path = "fc.weight", .dtype = "float32"},
          .largest_difference = 0.75};
}

/// The ranks train without any exchange.
inline void exchange_nothing(RanksComparedEvent& run) {
  run.cohorts[0].averages = run.cohorts[0].exchanges_tensors = false;
  run.calls = 0;
  for (RankCounts& counts : run.cohorts[0].counts) counts.calls = 0;
}

/// They exchange something, but no gradients.
inline void exchange_parameters(RanksComparedEvent& run) { run.cohorts[0].averages = false; }

inline Findings judge_run(const RanksComparedEvent& run, const std::string& id) {
  return judge_ranks(run, {.enabled = {id}}).findings;
}

inline FactValue fact_in(const Finding& finding, std::string_view key) {
  const auto found = std::ranges::find(finding.facts, key, &Fact::key);
  return found == finding.facts.end() ? FactValue(std::string("absent")) : found->value;
}

inline FactValue list_of(const std::vector<FactScalar>& scalars) { return scalars; }
inline FactValue ranks_of(const RankList& ranks) {
  return std::vector<FactScalar>(ranks.begin(), ranks.end());
}
inline FactValue text_of(const char* text) { return std::string(text); }

}  // namespace ddpscope::test
