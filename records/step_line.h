#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddpscope {

/// The step of a line that is a `step` record as this version writes it; nothing where the line is
/// to be read like any other. Most lines of a rank file are of this kind: no tree is built of them.
std::optional<std::int64_t> step_of_plain_line(std::string_view line);

}  // namespace ddpscope
