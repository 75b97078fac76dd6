#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddpscope {

/// What an exception says of an allocation that failed. Absent: it does not say.
struct AllocationFailure {
  std::int64_t requested_bytes = 0;
  std::optional<std::int64_t> free_bytes;
  std::optional<std::int64_t> capacity_bytes;
  std::optional<std::int64_t> fragmented_bytes;  ///< reserved by LibTorch and in no tensor
  std::optional<std::int64_t> foreign_bytes;     ///< of other processes
};

/// Nothing where the text is of something else.
std::optional<AllocationFailure> allocation_failure(const std::string& message);

}  // namespace ddpscope
