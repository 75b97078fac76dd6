#pragma once

#include <vector>

#include "report/merged_report.h"

namespace ddpscope {

/// What became of every check: failed where it has a finding, else blocked where it could not run
/// on some rank, else passed. A rank without a summary is named, since it was not judged to its
/// end. Of checks that judge all ranks together `at_merge` tells, and not what a rank says.
std::map<std::string, Coverage> coverage_of(const std::vector<RankFile>& files,
                                            const Findings& findings,
                                            const std::map<std::string, Coverage>& at_merge = {});

}  // namespace ddpscope
