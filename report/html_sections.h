#pragma once

#include <string>

#include "report/merged_report.h"

namespace ddpscope::html {

/// Parts of the page, in the order in which they stand. Each is empty where it has nothing to say.
std::string verdict(const MergedReport& report);
std::string contents(const MergedReport& report);
std::string tiles(const MergedReport& report);
std::string findings(const MergedReport& report);
std::string steps(const MergedReport& report);
std::string curves(const MergedReport& report);
std::string coverage(const MergedReport& report);
std::string ranks(const MergedReport& report);
std::string models(const MergedReport& report);
std::string module_trees(const MergedReport& report);  // within `models`
std::string settings(const MergedReport& report);
std::string leftover_suppressions(const MergedReport& report);
std::string input_remarks(const MergedReport& report);

}  // namespace ddpscope::html
