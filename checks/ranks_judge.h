#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "checks/check_table.h"
#include "checks/judge.h"
#include "model/finding.h"
#include "model/rank_compare_event.h"

namespace ddpscope {

struct RanksJudgeOptions {
  std::set<std::string> enabled;   ///< ids; of these, those that judge all ranks together run
  std::vector<Finding*> of_ranks;  ///< of single ranks; what explains another one is marked
  /// Says in a finding whether it is suppressed.
  std::function<void(Finding&)> decide_suppressed = [](Finding&) {};
};

struct RanksJudgement {
  Findings findings;
  std::map<std::string, CheckCoverage> coverage;  ///< of the checks that judge all ranks together
};

/// Judges the run as a whole, at a merge or while ranks hang, and links what is found: among
/// itself and with the findings of single ranks.
RanksJudgement judge_ranks(const RanksComparedEvent& run, const RanksJudgeOptions& options);
/// For tests: these checks instead of the table's.
RanksJudgement judge_ranks(const RanksComparedEvent& run, const RanksJudgeOptions& options,
                           std::span<const CheckRow> table);

}  // namespace ddpscope
