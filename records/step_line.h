#pragma once

#include <optional>
#include <string_view>

#include "model/run_record.h"

namespace ddpscope {

/// A line that is a `step` record as this version writes it; nothing where the line is to be read
/// like any other. Most lines of a rank file are of this kind: no tree is built of them.
std::optional<StepRecord> step_of_plain_line(std::string_view line);

}  // namespace ddpscope
