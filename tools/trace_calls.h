#pragma once

#include <string>
#include <vector>

#include "report/merged_report.h"

namespace ddpscope {

/// Adds the latest collectives of each rank of the run, as the rings in `dirs` have them.
void add_calls(const std::vector<std::string>& dirs, MergedReport& report);

}  // namespace ddpscope
