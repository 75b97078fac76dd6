#pragma once

#include <vector>

#include "report/merged_report.h"

namespace ddpscope {

/// What became of every check: failed where it has a finding, else blocked where it could not run
/// on some rank, else passed. A rank without a summary is named, since it was not judged to its
/// end.
std::map<std::string, Coverage> coverage_of(const std::vector<RankFile>& files,
                                            const Findings& findings);

}  // namespace ddpscope
