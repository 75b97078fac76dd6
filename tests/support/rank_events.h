#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checks/ranks_judge.h"

namespace ddpscope::test {

inline constexpr std::uint64_t kTestGroup = 0x7777777700000000;

struct CallWords {
  std::string owner;
  std::string module;
  std::string dtype = "float32";
};

inline ComparedCall compared_call(const CallRecord& record, const CallWords& words = {}) {
  return {record, words.owner, words.module, words.dtype};
}

/// A run of some ranks that all left a ring with calls and digests.
inline RanksComparedEvent compared_run(std::int64_t ranks) {
  RanksComparedEvent run{.world_size = ranks, .digests = 100, .calls = 100};
  for (std::int64_t rank = 0; rank < ranks; ++rank) run.with_ring.push_back(rank);
  return run;
}

/// What one check says.
inline Findings judged(const RanksComparedEvent& run, const std::string& id) {
  return judge_ranks(run, {.enabled = {id}}).findings;
}

inline FactValue fact_of(const Finding& finding, const std::string& key) {
  const auto found = std::ranges::find(finding.facts, key, &Fact::key);
  return found == finding.facts.end() ? FactValue(std::string("absent")) : found->value;
}

inline FactValue numbers(const std::vector<std::int64_t>& values) {
  return std::vector<FactScalar>(values.begin(), values.end());
}

inline FactValue words(const std::vector<std::string>& values) {
  return std::vector<FactScalar>(values.begin(), values.end());
}

}  // namespace ddpscope::test
