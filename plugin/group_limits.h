#pragma once

#include <cstdint>
#include <string>

namespace ddpscope {

/// What the control groups of this process allow; 0: no limit.
struct GroupLimits {
  std::int64_t memory_bytes = 0;
  double cores = 0;
};

/// `root` is the folder in which /proc and /sys stand.
GroupLimits group_limits(const std::string& root = "");

}  // namespace ddpscope
