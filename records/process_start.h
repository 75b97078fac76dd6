#pragma once

#include <cstdint>
#include <string>

namespace ddpscope {

/// Whether process `pid` of this host began after `started` (RFC 3339, UTC): then it only has the
/// number of the one that was meant. False where that is not known.
bool began_after(std::int64_t pid, const std::string& started);

}  // namespace ddpscope
