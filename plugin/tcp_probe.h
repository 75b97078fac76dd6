#pragma once

#include <cstdint>
#include <string>

namespace ddpscope {

/// Whether somebody listens at `port` of `host`: why not, or nothing. Waits at most for
/// `timeout_ms`, but for the resolver as long as that takes.
std::string why_not_reached(const std::string& host, std::uint16_t port, std::int64_t timeout_ms);

}  // namespace ddpscope
