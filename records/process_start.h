#pragma once

#include <cstdint>
#include <string>

namespace ddpscope {

struct ProcessStart {
  std::int64_t parent = 0;   ///< its number now
  std::int64_t seconds = 0;  ///< since 1970, when it started
};

/// Of process `pid` of this host; zeros where that is not known.
ProcessStart start_of(std::int64_t pid);

/// Whether process `pid` of this host began after `started` (RFC 3339, UTC): then it only has the
/// number of the one that was meant. False where that is not known.
bool began_after(std::int64_t pid, const std::string& started);

}  // namespace ddpscope
