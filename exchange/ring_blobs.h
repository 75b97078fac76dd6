#pragma once

#include <string_view>
#include <vector>

#include "exchange/rank_ring.h"

namespace ddpscope::ring {

/// The blobs at the begin of `area`, up to the first that is not whole. Views into `area`.
std::vector<Blob> kept_blobs(std::string_view area);

/// The whole blobs in what is there of an area of `size` bytes that is written round and round, in
/// the order in which they were written. Views into `area`.
std::vector<Blob> recent_blobs(std::string_view area, std::size_t size);

}  // namespace ddpscope::ring
