#pragma once

#include <string>
#include <vector>

#include "config/suppressions.h"
#include "exchange/ring_set.h"
#include "records/launch_file.h"
#include "records/rank_file.h"
#include "report/merged_report.h"

namespace ddpscope {

/// What a merge has of one run besides its findings.
struct RunEvidence {
  std::vector<RankFile*> files;
  std::vector<LaunchRecord> launches;
  std::vector<RingPlace> rings;
};

/// Runs the checks that judge all ranks together and fills in what they say: findings, coverage,
/// remarks. Marks findings of single ranks that explain others or that `suppressions` matches.
void judge_over_ranks(const RunEvidence& evidence, SuppressionList& suppressions,
                      MergeOptions& options);

}  // namespace ddpscope
