#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "records/rank_file.h"

namespace ddpscope {

using ReadResult = std::variant<RankFile, ReadProblem>;

/// Reads one `rank-<r>.jsonl` and trusts nothing in it; docs/report-format.md. Never throws.
/// Where the file is named `rank-<digits>.jsonl`, that rank must be the one in the record.
ReadResult read_rank_file(const std::string& path);

/// The same for text in memory. `path` only names the source.
ReadResult read_rank_text(const std::string& path, std::string_view text);

}  // namespace ddpscope
