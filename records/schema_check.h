#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "records/rank_file.h"

namespace ddpscope {

/// What of a file is not as records/schema.def has it.
struct SchemaReport {
  std::string kind;                   ///< `rank file`, `launch record` or `report`
  std::int64_t records = 0;           ///< lines or documents that were looked at
  std::vector<ReadProblem> problems;  ///< the first ones, each with line and member
  std::int64_t problem_count = 0;     ///< also those left out of `problems`
  std::string note;                   ///< about an incomplete last line, or empty
};

/// Checks the text of a rank file, of launch.json or of report.json, whichever it is. Unknown
/// records and members are accepted. `path` names the source; where it is that of a rank file, the
/// records must be of this rank.
SchemaReport check_schema(const std::string& path, std::string_view text);

}  // namespace ddpscope
