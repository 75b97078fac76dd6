#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "report/merged_report.h"

namespace ddpscope {

/// Reads the text of a `report.json` and trusts nothing in it: what is counted and what is primary
/// is judged anew. `path` only names the source.
std::variant<MergedReport, ReadProblem> read_report_text(const std::string& path,
                                                         std::string_view text);

}  // namespace ddpscope
