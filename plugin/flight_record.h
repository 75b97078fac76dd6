#pragma once

#include <cstdint>
#include <string>

namespace ddpscope {

/// Writes what c10d itself recorded of its collectives as `<dir>/rank-<r>.flight.json`. Returns an
/// error text, or nothing, also where this LibTorch records nothing.
std::string write_flight_record(const std::string& dir, std::int64_t rank);

}  // namespace ddpscope
